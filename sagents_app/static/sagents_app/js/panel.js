// What stands under the transcript: where the conversation is, and what waits for whom.

import { patch } from "./patch.js";

export function panel({ dress, announce, scroll }) {
  const element = document.getElementById("panel");
  const badge = document.getElementById("badge");
  const title = document.getElementById("title");
  const newTitle = document.getElementById("new-title");

  function show(state, { isNews }) {
    scroll.keeping(() => {
      const hadFocus = element.contains(document.activeElement);
      for (const item of patch(element, state.panel)) {
        dress(item);
        if (isNews && item.dataset.announce) announce(item.dataset.key, item.dataset.announce);
      }
      // Whoever has just pressed a button that is gone goes on writing.
      if (hadFocus && !element.contains(document.activeElement)) {
        document.getElementById("text")?.focus();
      }
    });
    badge.innerHTML = state.badge;
    if (title.textContent !== state.title) {
      title.textContent = document.title = state.title;
      if (newTitle) newTitle.defaultValue = state.title;
    }
  }

  return { show };
}
