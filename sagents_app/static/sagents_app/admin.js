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

async function watch(page) {
  const notice = page.querySelector(".sa-changed-elsewhere");
  for (;;) {
    await new Promise((done) => setTimeout(done, SECONDS * 1000));
    if (document.hidden) continue;
    try {
      const answer = await fetch(page.dataset.live, { headers: { Accept: "application/json" } });
      if (answer.ok && (await answer.json()).status !== page.dataset.status) {
        notice.hidden = false;
        return;
      }
    } catch {
      // Out of reach: the next try tells.
    }
  }
}

const page = document.querySelector(".sa-request");
if (page) {
  tellKeys(page);
  openEditor();
  addEventListener("hashchange", openEditor);
  page.querySelectorAll("form").forEach(sendOnce);
  if (page.dataset.live) watch(page);
}
