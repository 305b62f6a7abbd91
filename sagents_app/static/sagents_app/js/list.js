// Keeps the list of conversations fresh while somebody looks at it.

import { showTimes } from "./times.js";

const EVERY = 5000; // milliseconds
const lists = document.getElementById("lists");

async function refresh() {
  if (document.hidden || lists.contains(document.activeElement)) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    lists.replaceChildren(...page.getElementById("lists").childNodes);
    showTimes(lists);
  } catch {
    // Out of reach: the next look tells.
  }
}

setInterval(refresh, EVERY);
document.addEventListener("visibilitychange", refresh);
showTimes(document);
