// The page of one request: keys, one submit per press, and news from elsewhere. Without it, the
// page works all the same.

const SECONDS = 5;

function tellKeys(page) {
  const told = page.querySelector("[data-keys]");
  const button = page.querySelector("[accesskey]");
  if (!told || !button) return;
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  const label = button.accessKeyLabel || (isMac ? "Ctrl+Option+A" : "Alt+A");
  told.textContent = told.dataset.keys.replace("%s", label.slice(0, -2));
}

function openEditor() {
  const editor = document.getElementById("sa-edit");
  if (!editor || location.hash !== "#sa-edit") return;
  editor.open = true;
  editor.querySelector("textarea, input, select")?.focus();
}

function sendOnce(form) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
  // The page may come back from the browser's memory with the back button.
  addEventListener("pageshow", () => delete form.dataset.sent);
}

async function isSettled(page) {
  try {
    const answer = await fetch(page.dataset.live, { headers: { Accept: "application/json" } });
    return answer.ok && (await answer.json()).status !== page.dataset.status;
  } catch {
    return false; // Out of reach: the next try tells.
  }
}

// The socket says that something happened, and the rows say what; without it, asking in turns does.
function watch(page) {
  const { socket: address, conversation } = page.dataset;
  let socket;
  let timer;

  async function look() {
    clearTimeout(timer);
    if (!document.hidden && (await isSettled(page))) {
      page.querySelector(".sa-changed-elsewhere").hidden = false;
      socket?.close();
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(look, SECONDS * 1000);
  }

  if (address) {
    const url = new URL(address, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    socket = new WebSocket(url);
    const follow = { type: "follow", conversation, since: Number(page.dataset.since) };
    socket.onopen = () => socket.send(JSON.stringify(follow));
    socket.onmessage = ({ data }) => {
      if (JSON.parse(data).type === "events") look();
    };
  }
  document.addEventListener("visibilitychange", look);
  timer = setTimeout(look, SECONDS * 1000);
}

const page = document.querySelector(".sa-request");
if (page) {
  tellKeys(page);
  openEditor();
  addEventListener("hashchange", openEditor);
  page.querySelectorAll("form").forEach(sendOnce);
  if (page.dataset.live) watch(page);
}
