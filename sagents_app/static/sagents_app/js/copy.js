// A copy button on each code block.

export function addCopyButtons(element, texts) {
  for (const block of element.querySelectorAll(".markdown pre")) {
    if (block.parentElement.matches(".code-block")) continue;
    const frame = document.createElement("div");
    frame.className = "code-block";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = texts.copy;
    button.addEventListener("click", () => copy(block.textContent, button, texts));
    block.tabIndex = 0;
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

async function copy(text, button, texts) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the permission, or on a page that is not secure: select it, for the reader to copy.
    getSelection().selectAllChildren(button.previousElementSibling);
    return;
  }
  button.textContent = texts.copied;
  setTimeout(() => (button.textContent = texts.copy), 2000);
}
