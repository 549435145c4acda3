// Updates `time[data-age]` (an age) and `time[data-since]` (a duration so far) while the page is live.
// Times stop while the connection is lost or paused, so that they don't make old data look current.

const DAY = 86400;

function age(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < DAY) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / DAY)} d ago`;
}

function duration(seconds) {
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} min`;
}

function tick() {
  if (document.hidden || ["wait", "paused"].includes(document.body.dataset.state)) return;
  for (const time of document.querySelectorAll("time[data-age], time[data-since]")) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dataset.since || time.dateTime)) / 1000));
    const old = "age" in time.dataset && seconds >= 7 * DAY; // in that case the server wrote a date
    if (Number.isNaN(seconds) || old) continue;
    const words = "age" in time.dataset ? age(seconds) : duration(seconds);
    if (time.textContent !== words) time.textContent = words;
  }
}

if (document.body.dataset.stream) setInterval(tick, 1000);
