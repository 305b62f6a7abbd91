// Where the owner writes: Enter sends, what is refused stays, and one text is one message.

import { post, showProblem } from "./commands.js";

export function composer(form, { csrf, texts, name, onDone }) {
  if (!form) return;
  const field = form.elements.text;
  const draft = `sagents-draft-${name}`;
  const hasKeyboard = matchMedia("(pointer: fine)").matches;
  let tried = null;
  let isSending = false;

  // The same text sent again, as after a lost answer, is the same message; another text is not.
  function clientId(text) {
    if (tried !== text) form.elements.client_id.value = newId();
    tried = text;
    return form.elements.client_id.value;
  }

  async function send() {
    const text = field.value;
    if (isSending || !text.trim()) return;
    isSending = true;
    showProblem(form, "");
    const data = new FormData(form);
    data.set("client_id", clientId(text));
    const { problem } = await post(form.action, data, { csrf, texts });
    isSending = false;
    if (problem) return showProblem(form, problem);
    tried = null;
    // What was typed while the message was on its way is the next one.
    field.value = field.value.startsWith(text) ? field.value.slice(text.length) : field.value;
    keep();
    onDone();
  }

  function keep() {
    if (field.value) sessionStorage.setItem(draft, field.value);
    else sessionStorage.removeItem(draft);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  field.addEventListener("input", keep);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    if (!hasKeyboard && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    send();
  });
  field.value ||= sessionStorage.getItem(draft) ?? "";
}

// crypto.randomUUID is there on secure pages alone.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
