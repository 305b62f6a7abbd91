// Forms are sent by script where there is one: the page stays, and a refusal stands beside the form.

export function handleForms(root, words) {
  const composer = root.querySelector("#composer");

  async function send(form, button) {
    const data = new FormData(form, button);
    const isMessage = form === composer;
    // One id a text: a repeated post of it is the same message.
    if (isMessage) {
      form.dataset.clientId ||= crypto.randomUUID();
      data.set("client_id", form.dataset.clientId);
    }
    showError(form, "");
    const buttons = form.querySelectorAll("button");
    buttons.forEach((one) => (one.disabled = true));
    try {
      // A button without an address of its own names the page's.
      const address = button?.hasAttribute("formaction") ? button.formAction : form.action;
      const answer = await fetch(address, {
        method: "POST",
        body: data,
        headers: { Accept: "application/json", "X-CSRFToken": words.csrf },
      });
      const type = answer.headers.get("Content-Type") ?? "";
      const told = type.includes("json") ? await answer.json() : { error: words.textFailed };
      if (!answer.ok) return showError(form, told.error || words.textFailed);
      if (isMessage) {
        form.reset();
        delete form.dataset.clientId;
      }
    } catch {
      showError(form, words.textFailed);
    } finally {
      buttons.forEach((one) => (one.disabled = false));
      if (isMessage) form.elements.text.focus();
    }
  }

  function showError(form, text) {
    const place = form.querySelector(".error") ?? composer?.querySelector(".error");
    if (!place) return;
    place.hidden = !text;
    place.textContent = text;
  }

  root.addEventListener("submit", (event) => {
    event.preventDefault();
    const { target: form, submitter } = event;
    send(form, submitter);
  });

  composer?.elements.text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    composer.requestSubmit();
  });
}
