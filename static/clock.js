// Updates `[data-age]` (an age) and `time[data-since]` (a duration so far) while the page is live.
// Times stop while the connection is lost or paused, so that they don't make old data look current.

const DAY = 86400;

function age(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < DAY) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / DAY)} d ago`;
}

// Must print what `duration` in src/analysis/format/mod.rs prints.
function duration(ms) {
  const rounded = (unit) => Math.floor((ms + unit / 2) / unit);
  const two = (whole, unit, rest, smaller) =>
    rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${String(rest).padStart(2, "0")} ${smaller}`;
  const [s, min, h] = [rounded(1000), rounded(60_000), rounded(3_600_000)];
  if (ms === 0) return "0 ms";
  if (ms < 100) return `${ms}.0 ms`;
  if (ms < 1000) return `${ms} ms`;
  if (rounded(100) < 600) return `${(rounded(100) / 10).toFixed(1)} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (min < 24 * 60) return two(Math.floor(min / 60), "h", min % 60, "min");
  return h % 24 === 0 ? `${h / 24} d` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

function tick() {
  if (document.hidden || ["wait", "paused"].includes(document.body.dataset.state)) return;
  for (const time of document.querySelectorAll("[data-age], time[data-since]")) {
    const ms = Math.max(0, Date.now() - (1000 * time.dataset.age || Date.parse(time.dataset.since || time.dateTime)));
    const seconds = Math.floor(ms / 1000);
    const old = "age" in time.dataset && seconds >= 7 * DAY; // in that case the server wrote a date
    if (Number.isNaN(seconds) || old) continue;
    const words = "age" in time.dataset ? age(seconds) : duration(ms);
    if (time.textContent !== words) time.textContent = words;
  }
}

if (document.body.dataset.stream) setInterval(tick, 1000);
