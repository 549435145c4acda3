// Replays a saved run: one step at a time, phase by phase, with the state next to it. The file contains everything.

const find = (selector) => document.querySelector(selector);
const steps = [...document.querySelectorAll(".xstep")];
const states = JSON.parse(find("#states").textContent);
const RANK = { decide: 0, act: 1, reduce: 2, critic: 3, check: 4, recover: 5 };
const phases = steps.map((step) => step.dataset.phases.split(" ").filter(Boolean));
// One place per event. A step without events has one place.
const starts = [];
let places = 0;
for (const list of phases) {
  starts.push(places);
  places += Math.max(1, list.length);
}
let at = 0; // the place
let playing = 0;
let settling = 0;
let on = false;

const stepAt = (place) => {
  let low = 0;
  for (let high = starts.length; high - low > 1; ) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= place) low = middle;
    else high = middle;
  }
  return low;
};

/** The state after the first `count` steps: a map from key to [value, step that wrote it, doubt]. */
function stateAfter(count) {
  const state = new Map();
  for (const changes of states.slice(0, count)) for (const [key, ...told] of changes) state.set(key, told);
  return state;
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function showState(step, rank) {
  const reduced = rank >= RANK.reduce;
  const rows = [];
  for (const [key, [value, by, doubt]] of stateAfter(reduced ? step + 1 : step)) {
    const row = document.createElement("li");
    const words = document.createElement("span");
    words.append(element("span", key, "k"), " ", element("span", value ?? "unknown", value === null ? "v nul" : "v"));
    if (doubt) words.append(" ", element("span", doubt, "doubt"));
    row.append(words, element("span", by === null ? "from the start" : `at ${by}`, "by"));
    if (reduced && by === step) row.className = "chg";
    rows.push(row);
  }
  find("[data-state]").replaceChildren(...rows);
  const known = step < states.length ? `${reduced ? "after" : "before"} step ${steps[step].dataset.n}` : "skipped: the file was full";
  find("[data-state-of]").textContent = known;
}

function show() {
  document.body.classList.toggle("replaying", on);
  for (const part of document.querySelectorAll("[data-bar], [data-side]")) part.hidden = !on;
  find("[data-replay]").setAttribute("aria-pressed", String(on));
  const step = stepAt(at);
  const event = at - starts[step];
  for (const [n, section] of steps.entries()) section.hidden = on && n !== step;
  if (!on) return;
  const phase = phases[step][event];
  const rank = RANK[phase] ?? RANK.check;
  for (const part of steps[step].querySelectorAll("[data-phase]")) {
    part.classList.toggle("now", phase === part.dataset.phase);
    part.classList.toggle("later", (RANK[part.dataset.phase] ?? 0) > rank);
  }
  showState(step, rank);
  const of = phases[step].length;
  const where = of ? `step ${steps[step].dataset.n}, event ${event + 1} of ${of}` : `step ${steps[step].dataset.n}`;
  find("[data-where]").textContent = where;
  const slide = find("[data-slide]");
  slide.max = places - 1;
  slide.value = at;
  slide.setAttribute("aria-valuetext", where);
  // Browsers refuse to change the address at the rate of a key that is held down.
  clearTimeout(settling);
  settling = setTimeout(() => on && history.replaceState(null, "", `#step=${step}&event=${event + 1}`), 200);
}

function to(place) {
  at = Math.max(0, Math.min(places - 1, place));
  show();
}

function play(start) {
  clearInterval(playing);
  playing = 0;
  const button = find("[data-play]");
  button.setAttribute("aria-pressed", String(start));
  button.firstChild.textContent = start ? "Pause " : "Play ";
  if (!start) return;
  if (at === places - 1) to(0);
  playing = setInterval(() => (at < places - 1 ? to(at + 1) : play(false)), 600 / find("[data-speed]").value);
}

const moves = {
  first: () => 0,
  last: () => places - 1,
  on: () => at + 1,
  back: () => at - 1,
  next: () => starts[stepAt(at) + 1] ?? places - 1,
  prev: () => (at > starts[stepAt(at)] ? starts[stepAt(at)] : (starts[stepAt(at) - 1] ?? 0)),
};

function replay(start) {
  on = start && steps.length > 0;
  if (on) scrollTo(0, 0);
  else play(false);
  show();
}

/** Opens the replay at a step, after that many of its events. */
function open(step, event) {
  at = (starts[step] ?? 0) + Math.max(0, Math.min(event, (phases[step] ?? []).length) - 1);
  replay(true);
}

/** Reads the address: `#step=4&event=2` opens the replay there, `#step-4` is a link of the page. */
function fromAddress() {
  const cursor = /^#step=(\d+)(?:&event=(\d+))?$/.exec(location.hash);
  const link = /^#step-(\d+)$/.exec(location.hash);
  if (cursor) {
    const step = Math.min(Number(cursor[1]), steps.length - 1);
    open(step, Number(cursor[2] ?? 1));
  } else if (link && on && starts[link[1]] !== undefined) to(starts[link[1]]);
  else if (on && location.hash) {
    // The link leads to a part of the page that the replay hides.
    replay(false);
    find(`#${CSS.escape(location.hash.slice(1))}`)?.scrollIntoView();
  }
}

for (const button of document.querySelectorAll("[data-to]"))
  button.addEventListener("click", () => to(moves[button.dataset.to]()));
find("[data-play]").addEventListener("click", () => play(!playing));
find("[data-speed]").addEventListener("change", () => playing && play(true));
find("[data-slide]").addEventListener("input", (event) => to(Number(event.target.value)));
find("[data-replay]").addEventListener("click", () => replay(!on));
find("[data-replay]").hidden = !steps.length;
window.addEventListener("hashchange", fromAddress);

const KEYS = { j: "next", k: "prev", n: "on", p: "back", G: "last" };
let pair = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select")) return;
  if (event.key === "r") return replay(!on);
  if (!on) return;
  if (event.key === " " && !event.target.closest("button")) {
    event.preventDefault();
    play(!playing);
  } else if (event.key === "g" && pair === "g") to(0);
  else if (KEYS[event.key]) to(moves[KEYS[event.key]]());
  pair = event.key === "g" && pair !== "g" ? "g" : "";
});

const { step, event } = document.body.dataset;
if (step !== undefined && !location.hash) {
  open(Math.min(Number(step), steps.length - 1), Number(event));
} else fromAddress();
