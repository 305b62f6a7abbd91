// The page of one conversation: what it shows is kept live, what people do goes out as requests.

import { announcer } from "./announce.js";
import { handleCommands } from "./commands.js";
import { composer } from "./composer.js";
import { addCopyButtons } from "./copy.js";
import { follow } from "./live.js";
import { panel } from "./panel.js";
import { scroller } from "./scroll.js";
import { showTimes } from "./times.js";
import { transcript } from "./transcript.js";

const settings = JSON.parse(document.getElementById("settings").textContent);
const { texts } = settings;
const chat = document.getElementById("chat");

function dress(element) {
  addCopyButtons(element, texts);
  showTimes(element);
}

const announce = announcer(document.getElementById("announcements"));
const scroll = scroller(document.getElementById("scroll"), document.getElementById("to-end"));
const view = transcript({ dress, announce, scroll });
const below = panel({ dress, announce, scroll });

function showConnection(state) {
  const bar = document.getElementById("connection");
  const text = { lost: texts.lost, logged_out: texts.logged_out, gone: texts.gone }[state] ?? "";
  bar.textContent = text;
  bar.hidden = !text;
  bar.classList.toggle("final", state === "logged_out" || state === "gone");
  chat.dataset.connection = state;
}

const live = follow({
  address: settings.socket,
  conversation: settings.conversation,
  since: settings.number,
  version: settings.version,
  language: settings.language,
  onState: showConnection,
  onFrame(frame) {
    if (frame.type === "snapshot") view.replace(frame);
    if (frame.type === "events") view.apply(frame);
    if (frame.state) below.show(frame.state, { isNews: frame.type === "events" });
    return view.isWhole();
  },
});

handleCommands(chat, { csrf: chat.dataset.csrf, texts, onDone: live.hurry });
composer(document.getElementById("composer"), {
  csrf: chat.dataset.csrf,
  texts,
  name: settings.conversation,
  onDone() {
    live.hurry();
    scroll.toEnd();
  },
});
dress(chat);
scroll.toEnd();
document.getElementById(location.hash.slice(1))?.scrollIntoView({ block: "nearest" });
