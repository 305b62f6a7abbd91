// Moments in the reader's own zone and language: today by the hour, others by the day.

export function showTimes(element) {
  const language = document.documentElement.lang;
  const today = new Date().toDateString();
  for (const time of element.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const isToday = at.toDateString() === today;
    const day = isToday ? {} : { dateStyle: "medium" };
    time.textContent = new Intl.DateTimeFormat(language, { ...day, timeStyle: "short" }).format(at);
    time.title = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" }).format(at);
  }
}
