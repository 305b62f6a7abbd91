// Puts HTML of the server in place, and leaves alone what looks the same: focus, typed text, folds.

export function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content.firstElementChild;
}

export function replace(old, fresh) {
  const opened = new Set(
    [...old.querySelectorAll("details[open][data-fold]")].map((one) => one.dataset.fold),
  );
  for (const fold of fresh.querySelectorAll("details[data-fold]")) {
    if (opened.has(fold.dataset.fold)) fold.open = true;
  }
  old.replaceWith(fresh);
}

// Children are told by data-key; one whose data-version is the same stays. Returns the new ones.
export function patch(container, html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const known = new Map([...container.children].map((child) => [child.dataset.key, child]));
  const added = [];
  const wanted = [...holder.content.children].map((fresh) => {
    const old = known.get(fresh.dataset.key);
    if (old?.dataset.version === fresh.dataset.version) return old;
    added.push(fresh);
    return fresh;
  });
  const kept = new Set(wanted);
  for (const child of [...container.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((child, index) => {
    if (container.children[index] !== child) {
      container.insertBefore(child, container.children[index] ?? null);
    }
  });
  return added;
}
