// A conversation's page: follows the event log and sends what people do.

import { follow } from "./follow.js";
import { transcript } from "./transcript.js";
import { handleForms } from "./forms.js";

const root = document.getElementById("conversation");
const words = root.dataset;
const connection = document.getElementById("connection");
const announce = document.getElementById("announce");
const panel = document.getElementById("panel");
const view = transcript(document.getElementById("transcript"), words);

function setStatus(status) {
  root.dataset.status = status;
}

function showConnection(text) {
  connection.hidden = !text;
  connection.textContent = text;
}

// What somebody is typing into a request stays, as long as the same requests wait.
function setPanel(html) {
  const fresh = document.createElement("div");
  fresh.innerHTML = html;
  const [known, next] = [panel, fresh].map((one) => one.querySelector(".panel")?.dataset.key);
  if (known === next && panel.querySelector(".card")) return;
  const focused = panel.contains(document.activeElement);
  view.keeping(() => panel.replaceChildren(...fresh.childNodes));
  if (panel.querySelector(".card")) announce.textContent = words.textWaiting;
  else if (focused) document.getElementById("text")?.focus();
}

// The page as the server shows it now: for a cursor that is older than what is kept.
async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ["transcript", "status", "panel"]) {
    document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
  }
  const fresh = page.getElementById("conversation").dataset;
  setStatus(fresh.status);
  view.toEnd();
  return Number(fresh.number);
}

const handlers = {
  display_message_saved: (event) => {
    view.put(event);
    if (event.message.message_type === "assistant") announce.textContent = words.textAnswered;
  },
  display_message_updated: (event) => view.put(event),
  deltas: (event) => view.append(event),
  stream_ended: (event) => view.endStream(event.stream),
  title_changed: (event) => {
    document.getElementById("title").textContent = event.title;
    document.title = event.title;
  },
  status_changed: (event) => setStatus(event.status),
};

function apply(event) {
  handlers[event.type]?.(event);
  if (event.panel !== undefined) {
    setPanel(event.panel);
    const badge = document.querySelector("#status .status");
    const status = panel.querySelector(".panel").dataset.status;
    badge.className = `status ${status}`;
    badge.textContent = panel.querySelector(".panel").dataset.label || status;
    setStatus(status);
  }
}

follow({
  url: words.socket,
  since: Number(words.number),
  onEvent: apply,
  onStale: refresh,
  onState: (state) => {
    const texts = {
      live: "",
      lost: words.textLost,
      "logged-out": words.textLoggedOut,
      gone: words.textGone,
    };
    showConnection(texts[state]);
  },
});
handleForms(root, words);
view.toEnd();
