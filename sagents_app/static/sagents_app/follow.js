// A cursor over a conversation's event log: no gap, no duplicate, and it reconnects by itself.

const LOGGED_OUT = 4401;
const NOT_FOUND = 4404;
const FIRST_DELAY = 250; // milliseconds
const LONGEST_DELAY = 8000;

export function follow({ url, since, onEvent, onStale, onState }) {
  let cursor = since;
  let delay = FIRST_DELAY;

  async function take(frame) {
    if (frame.type === "snapshot") {
      cursor = (await onStale()) ?? frame.number;
      return;
    }
    if (frame.type !== "events") return;
    if (frame.from > cursor + 1) {
      cursor = (await onStale()) ?? frame.to;
      return;
    }
    for (const event of frame.events) {
      if (event.number > cursor) onEvent(event);
    }
    cursor = Math.max(cursor, frame.to);
  }

  function open() {
    const address = new URL(url, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.searchParams.set("since", cursor);
    const socket = new WebSocket(address);
    let queue = Promise.resolve();
    socket.onopen = () => {
      delay = FIRST_DELAY;
      onState("live");
    };
    socket.onmessage = (message) => {
      queue = queue.then(() => take(JSON.parse(message.data)));
    };
    socket.onclose = ({ code }) => {
      if (code === LOGGED_OUT) return onState("logged-out");
      if (code === NOT_FOUND) return onState("gone");
      onState("lost");
      setTimeout(open, delay * (0.5 + Math.random()));
      delay = Math.min(delay * 2, LONGEST_DELAY);
    };
  }

  open();
}
