// A cursor over one conversation's events: no gap, no duplicate. Reconnects by itself.

const LOGGED_OUT = 4401;
const FIRST_DELAY = 250; // milliseconds
const LONGEST_DELAY = 8000;
const PING_EVERY = 15000;
const SILENCE = 40000; // without any frame the connection counts as lost

export function follow({ address, conversation, since, version, language, onFrame, onState }) {
  let cursor = since;
  let delay = FIRST_DELAY;
  let socket = null;
  let retry = null;
  let heard = 0;
  let ended = false;

  function open() {
    clearTimeout(retry);
    const url = new URL(address, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const opened = new WebSocket(url);
    socket = opened;
    heard = Date.now();
    opened.onopen = ask;
    opened.onmessage = (message) => {
      heard = Date.now();
      if (socket === opened) take(JSON.parse(message.data));
    };
    opened.onclose = ({ code }) => {
      if (socket === opened) closed(code);
    };
  }

  function ask() {
    send({ type: "follow", conversation, since: cursor, language });
  }

  function send(frame) {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
  }

  function closed(code) {
    socket = null;
    if (code === LOGGED_OUT) return end("logged_out");
    if (ended) return;
    onState("lost");
    retry = setTimeout(open, delay * (0.5 + Math.random()));
    delay = Math.min(delay * 2, LONGEST_DELAY);
  }

  function end(state) {
    ended = true;
    onState(state);
    socket?.close();
  }

  function take(frame) {
    if (frame.type === "error") {
      if (frame.error.code === "not_found") end("gone");
      return;
    }
    if (frame.conversation !== conversation) return;
    // A server that speaks another version brings other scripts with it.
    if (frame.version !== version) return location.reload();
    delay = FIRST_DELAY;
    onState("live");
    if (frame.type === "events") {
      if (frame.to <= cursor) return;
      if (frame.from > cursor + 1) return ask();
      frame.events = frame.events.filter((event) => event.number > cursor);
    }
    const isWhole = onFrame(frame);
    if (frame.type === "snapshot") cursor = frame.number;
    if (frame.type === "events") cursor = isWhole ? frame.to : null;
    if (!isWhole) ask();
  }

  function hurry() {
    if (ended || socket?.readyState === WebSocket.OPEN) return;
    delay = FIRST_DELAY;
    if (!socket) open();
  }

  setInterval(() => {
    if (ended || !socket) return;
    if (Date.now() - heard > SILENCE) {
      const silent = socket;
      socket = null;
      silent.close();
      closed(0);
    } else {
      send({ type: "ping" });
    }
  }, PING_EVERY);
  addEventListener("online", hurry);
  addEventListener("offline", () => onState("lost"));
  addEventListener("pageshow", (event) => event.persisted && hurry());
  document.addEventListener("visibilitychange", () => document.hidden || hurry());

  open();
  return { hurry };
}
