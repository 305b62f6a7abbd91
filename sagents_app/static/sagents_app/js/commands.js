// Forms marked data-command are sent by script: the page stays, and a refusal stands in the form.

export async function post(url, data, { csrf, texts }) {
  if (!data.has("csrfmiddlewaretoken")) data.set("csrfmiddlewaretoken", csrf);
  let answer;
  try {
    answer = await fetch(url, { method: "POST", body: data, headers: { Accept: "application/json" } });
  } catch {
    return { problem: texts.unreachable };
  }
  const isJSON = answer.headers.get("Content-Type")?.includes("json");
  const told = isJSON ? await answer.json().catch(() => ({})) : {};
  if (answer.ok) return { told };
  const fallback = answer.status >= 500 ? texts.unreachable : texts.refused;
  return { problem: told.error?.text || fallback, code: told.error?.code };
}

export function showProblem(form, text) {
  const place = form.querySelector(".form-error");
  if (!place) return;
  place.textContent = text;
  place.hidden = !text;
}

export function handleCommands(root, { csrf, texts, onDone }) {
  root.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form[data-command]")) return;
    event.preventDefault();
    if (form.ariaBusy === "true") return;
    form.ariaBusy = "true";
    showProblem(form, "");
    const data = new FormData(form, event.submitter);
    const { problem } = await post(form.action, data, { csrf, texts });
    form.ariaBusy = "false";
    if (problem) return showProblem(form, problem);
    if (form.matches("[data-closes]")) form.closest("details").open = false;
    onDone();
  });

  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = event.target.closest("details[data-escape][open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });

  document.addEventListener("click", (event) => {
    for (const menu of root.querySelectorAll(".menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}
