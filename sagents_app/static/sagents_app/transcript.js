// The transcript: rows by id, the text that is streaming, and a scroll position that behaves.

const NEAR_END = 80; // pixels

export function transcript(element, words) {
  const isNearEnd = () =>
    element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;

  // Keeps a reader at the end there, and one who has scrolled up where they are.
  function keeping(change) {
    const stay = isNearEnd();
    change();
    if (stay) toEnd();
  }

  function toEnd() {
    element.scrollTop = element.scrollHeight;
  }

  function put({ message, html }) {
    if (html === undefined) return;
    keeping(() => {
      document.getElementById("nothing")?.remove();
      const holder = document.createElement("template");
      holder.innerHTML = html;
      const row = holder.content.querySelector("article");
      const known = document.getElementById(`row-${message.id}`);
      if (known) {
        known.replaceWith(row);
      } else {
        const later = [...element.querySelectorAll("[data-number]")].find(
          (other) => Number(other.dataset.number) > message.number,
        );
        element.insertBefore(row, later ?? element.querySelector(".streaming"));
      }
      addCopyButtons(row);
    });
  }

  function append({ stream, offset, text }) {
    if (!text) return;
    keeping(() => {
      let article = element.querySelector(`[data-stream="${stream}"]`);
      if (!article) {
        element.querySelectorAll(".streaming").forEach((old) => old.remove());
        article = document.createElement("article");
        article.className = "message assistant streaming";
        article.dataset.stream = stream;
        const body = document.createElement("div");
        body.className = "text plain";
        body.dir = "auto";
        article.append(body);
        element.append(article);
      }
      const body = article.firstElementChild;
      const shown = body.textContent.length;
      if (offset + text.length > shown) body.append(text.slice(Math.max(0, shown - offset)));
    });
  }

  function endStream(stream) {
    element.querySelector(`[data-stream="${stream}"]`)?.remove();
  }

  function addCopyButtons(scope) {
    for (const block of scope.querySelectorAll(".markdown pre")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy quiet";
      button.textContent = words.textCopy;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(block.querySelector("code").textContent);
        button.textContent = words.textCopied;
      });
      block.append(button);
    }
  }

  addCopyButtons(element);
  return { put, append, endStream, keeping, toEnd };
}
