// Moves and plays the replay. The server has the run: this script requests `#replay` at another place, one request at a
// time, and puts the place into the address. Walking replaces the address. Jumping adds a history entry.

const box = () => document.getElementById("replay");
let moves = []; // [kind, distance or place], queued while a request is in progress
let busy = false;
let playing = false;
let timer;
let shown; // the place whose events are visible

/** Moves by events, by steps or to a place. Merges moves of the same kind that wait for the server. */
function move(kind, by) {
  const last = moves.at(-1);
  const walks = kind === "events" || kind === "steps";
  if (walks && last?.[0] === kind) last[1] += by;
  else if (walks) moves.push([kind, by]);
  else moves = [[kind, by]]; // earlier moves no longer matter
  send();
}

async function send() {
  if (busy || !moves.length) return;
  const [kind, by] = moves.shift();
  const { part, at } = box().dataset;
  clearTimeout(timer);
  busy = true;
  let url = `${part}at=${at}&${kind}=${by}`;
  if (kind === "at") url = `${part}at=${by}`;
  else if (kind === "jump" || kind === "change") url = by;
  try {
    await htmx.ajax("GET", url, { source: "#replay", target: "#replay", swap: "outerMorph" });
  } catch {
    play(false); // the server doesn't respond; the page shows that
  }
  busy = false;
  if ("stop" in box().dataset && kind === "events") play(false);
  arrive(kind === "jump");
  send();
}

/** Updates the address, the slider and the timer to the place that the page shows. */
function arrive(jump) {
  const { at, url, skip, wait } = box().dataset;
  if (url !== location.pathname + location.search) {
    history[jump ? "pushState" : "replaceState"]({ htmx: true }, "", url);
  }
  look();
  const slider = document.getElementById("pos");
  if (slider && !moves.length) slider.value = at;
  // A swap changes the default of a checkbox, but not its state once the user has clicked it.
  for (const stop of document.querySelectorAll("#stops [type=checkbox]")) stop.checked = stop.defaultChecked;
  clearTimeout(timer);
  if (!playing || busy || moves.length) return;
  if (skip) timer = setTimeout(move, Number(wait), "events", Number(skip));
  else if (!("alive" in box().dataset)) play(false);
}

/** Scrolls to the current phase, if the place changed. */
function look() {
  const { at } = box().dataset;
  if (at !== shown) document.querySelector(".phase.now")?.scrollIntoView({ block: "nearest" });
  shown = at;
}

function play(on) {
  playing = on;
  document.querySelector("[data-play]")?.setAttribute("aria-pressed", String(on));
  arrive(false);
}

if (box()) {
  look();
  document.addEventListener("replay:move", ({ detail }) => move(...detail));
  document.addEventListener("replay:toggle", () => play(!playing));
  document.addEventListener("htmx:before:swap", (event) => {
    // A pulse requested before the last move would lead back. The next pulse is up to date.
    const { sourceElement, request } = event.detail.ctx;
    if (sourceElement?.id !== "pulse") return;
    const from = new URL(request.action, location).searchParams.get("from");
    if (busy || (from && from !== box().dataset.at)) event.preventDefault();
  });
  document.addEventListener("htmx:after:swap", () => busy || arrive(false));
}
