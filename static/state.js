// Shows the state of the stream in the bar, and a notice below it when the connection is lost.

const part = (name) => document.querySelector(`[data-${name}]`);
const STATES = {
  live: ["Live", "#i-dot"],
  ended: ["Inactive", "#i-ring"],
  paused: ["Paused", "#i-pause"],
  wait: ["Reconnecting", "#i-stalled"],
};
let now; // the last state from live.js

function show() {
  const { paused, ended, down, tries } = now;
  const seconds = down ? Math.floor((Date.now() - down) / 1000) : 0;
  // The first connection of a page takes a moment. That isn't a lost connection.
  const state = paused ? "paused" : down && (tries || seconds) ? "wait" : ended ? "ended" : "live";
  const [word, icon] = STATES[state];
  part("live").dataset.live = document.body.dataset.state = state;
  part("live").querySelector("use").setAttribute("href", icon);
  // Setting the same word again would make screen readers repeat it.
  if (part("live-word").textContent !== word) part("live-word").textContent = word;
  part("live-seconds").textContent = state === "wait" ? `${seconds} s` : "";
  part("lost").hidden = state !== "wait" || seconds < 2;
  part("lost-time").textContent = new Date(down).toTimeString().slice(0, 8);

  const button = part("pause");
  button.setAttribute("aria-pressed", String(paused));
  button.title = paused ? "Resume live updates" : "Pause live updates";
  button.querySelector("use").setAttribute("href", paused ? "#i-play" : "#i-pause");
}

document.body.addEventListener("board:state", (event) => {
  now = event.detail;
  show();
});
setInterval(() => now?.down && show(), 1000);
