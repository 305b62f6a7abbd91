// A reader at the end stays at the end; one who has scrolled up stays there and is told of news.

const NEAR = 60; // pixels

export function scroller(element, button) {
  const fromEnd = () => element.scrollHeight - element.scrollTop - element.clientHeight;
  let isAtEnd = true;

  function toEnd() {
    element.scrollTop = element.scrollHeight;
    isAtEnd = true;
    button.hidden = true;
  }

  function keeping(change) {
    const before = element.scrollHeight;
    change();
    if (isAtEnd) toEnd();
    else if (element.scrollHeight > before) button.hidden = false;
  }

  // Content is added above: what is read does not move.
  function holding(change) {
    const before = fromEnd();
    change();
    element.scrollTop = element.scrollHeight - element.clientHeight - before;
  }

  element.addEventListener("scroll", () => {
    isAtEnd = fromEnd() < NEAR;
    if (isAtEnd) button.hidden = true;
  });
  button.addEventListener("click", toEnd);
  // The room changes with the panel, the composer and the keyboard of a phone.
  new ResizeObserver(() => isAtEnd && toEnd()).observe(element);
  return { keeping, holding, toEnd };
}
