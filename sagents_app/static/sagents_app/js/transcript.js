// The rows of the transcript by their numbers, and the reply that streams under them.

import { parse, replace } from "./patch.js";

export function transcript({ dress, announce, scroll }) {
  const rows = document.getElementById("rows");
  const stream = streaming(document.getElementById("stream"));
  const empty = document.getElementById("empty");
  const earlier = document.getElementById("earlier");

  function put({ id, number, html }, { isNews }) {
    const row = parse(html);
    const known = document.getElementById(`row-${id}`);
    if (known) {
      if (known.dataset.version === row.dataset.version) return;
      replace(known, row);
    } else {
      rows.insertBefore(row, firstAfter(number));
      if (isNews && row.dataset.announce) announce(id, row.dataset.announce);
    }
    dress(row);
  }

  function firstAfter(number) {
    let next = null;
    for (let row = rows.lastElementChild; row; row = row.previousElementSibling) {
      if (Number(row.dataset.number) < number) break;
      next = row;
    }
    return next;
  }

  function showEmpty() {
    empty.hidden = rows.childElementCount > 0 || stream.isShown();
  }

  function apply(frame) {
    scroll.keeping(() => {
      for (const event of frame.events) stream.take(event);
      for (const row of frame.rows ?? []) put(row, { isNews: true });
      showEmpty();
    });
  }

  // What the server has is what is shown; what was unfolded further up stays.
  function replaceAll(frame) {
    scroll.keeping(() => {
      const first = frame.rows[0]?.number ?? Infinity;
      const kept = new Set(frame.rows.map((row) => row.id));
      for (const row of [...rows.children]) {
        if (Number(row.dataset.number) >= first && !kept.has(row.dataset.key)) row.remove();
      }
      for (const row of frame.rows) put(row, { isNews: false });
      stream.set(frame.stream);
      showEmpty();
    });
  }

  earlier.addEventListener("click", async (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    const answer = await fetch(link.href, { headers: { "X-Requested-With": "fetch" } });
    if (!answer.ok) return location.assign(link.href);
    const part = document.createElement("template");
    part.innerHTML = await answer.text();
    const found = [...part.content.querySelectorAll("li.row")];
    const next = part.content.querySelector(":scope > a");
    scroll.holding(() => {
      rows.prepend(...found);
      found.forEach(dress);
      earlier.replaceChildren(...(next ? [next] : []));
      earlier.hidden = !next;
    });
  });

  return { apply, replace: replaceAll, isWhole: stream.isWhole };
}

// The reply that streams, as plain text until its row is there. Offsets count code points.
function streaming(element) {
  const text = document.getElementById("stream-text");
  const thinking = document.getElementById("stream-thinking");
  const call = document.getElementById("stream-call");
  let length = [...text.textContent].length;
  let isWhole = true;
  let ended = null;

  function set(stream) {
    element.dataset.stream = stream?.stream ?? "";
    element.hidden = !stream;
    text.textContent = stream?.text ?? "";
    thinking.textContent = stream?.thinking ?? "";
    thinking.closest("details").hidden = !stream?.thinking;
    call.hidden = true;
    length = [...text.textContent].length;
    isWhole = true;
  }

  function take(event) {
    if (event.type === "deltas") append(event);
    else if (event.type === "tool_call_identified") announceCall(event);
    else if (event.type === "stream_ended") {
      ended = event.stream;
      if (event.stream === element.dataset.stream) set(null);
    } else if (event.type === "status_changed" && event.status !== "running") set(null);
  }

  function append({ stream, offset, text: more, thinking: thought }) {
    if (stream === ended) return;
    if (stream !== element.dataset.stream) set({ stream });
    const points = [...(more ?? "")];
    if (offset > length) isWhole = false;
    else if (offset + points.length > length) {
      text.append(points.slice(length - offset).join(""));
      length = offset + points.length;
    }
    if (thought) {
      thinking.append(thought);
      thinking.closest("details").hidden = false;
    }
    element.hidden = false;
  }

  function announceCall({ stream, display_text: label, name }) {
    if (stream !== element.dataset.stream) set({ stream });
    call.textContent = call.dataset.text.replace("%s", label || name);
    call.hidden = false;
    element.hidden = false;
  }

  return { set, take, isShown: () => !element.hidden, isWhole: () => isWhole };
}
