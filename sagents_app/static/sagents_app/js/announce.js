// Tells a screen reader of each finished message and each request once.

const PAUSE = 400; // milliseconds; what comes together is told together

export function announcer(region) {
  const told = new Set();
  let waiting = [];
  let timer = null;

  function tell() {
    region.textContent = waiting.join(" ");
    waiting = [];
    timer = null;
  }

  return function announce(key, text) {
    if (told.has(key)) return;
    told.add(key);
    waiting.push(text);
    timer ??= setTimeout(tell, PAUSE);
  };
}
