// Where is the replay, and does it play? The server knows the run: this asks for `#replay` at another place, one request
// at a time, and puts the place into the address. Walking replaces the address, jumping adds one to go back to.

const box = () => document.getElementById("replay");
let moves = []; // [what, how far or where]: asked for while a request was under way
let busy = false;
let playing = false;
let timer;
let shown = box()?.dataset.at; // the position whose events are in sight

/** Goes on by events or by steps, or to a place; moves of one kind that wait for the server become one. */
function move(kind, by) {
  const last = moves.at(-1);
  const walks = kind === "events" || kind === "steps";
  if (walks && last?.[0] === kind) last[1] += by;
  else if (walks) moves.push([kind, by]);
  else moves = [[kind, by]]; // whatever came before would only be left again
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
    play(false); // the board is away; the page says so
  }
  busy = false;
  if ("stop" in box().dataset && kind === "events") play(false);
  arrive(kind === "jump");
  send();
}

/** The page shows another place: the address, the slider and the clock follow. */
function arrive(jump) {
  const { at, url, skip, wait } = box().dataset;
  if (url !== location.pathname + location.search) {
    history[jump ? "pushState" : "replaceState"]({ htmx: true }, "", url);
  }
  if (at !== shown) document.querySelector(".phase.now")?.scrollIntoView({ block: "nearest" });
  shown = at;
  const slider = document.getElementById("pos");
  if (slider && !moves.length) slider.value = at;
  // A swap changes what a box says at first, not what it says once somebody used it.
  for (const stop of document.querySelectorAll("#stops [type=checkbox]")) stop.checked = stop.defaultChecked;
  clearTimeout(timer);
  if (!playing || busy || moves.length) return;
  if (skip) timer = setTimeout(move, Number(wait), "events", Number(skip));
  else if (!("alive" in box().dataset)) play(false);
}

function play(on) {
  playing = on;
  document.querySelector("[data-play]")?.setAttribute("aria-pressed", String(on));
  arrive(false);
}

function seek(chart, x) {
  const { left, width } = chart.getBoundingClientRect();
  const last = Number(box().dataset.last);
  move("at", Math.min(Math.floor(((x - left) / width) * (last + 1)), last));
}

function click(event) {
  const { target } = event;
  if (target.closest("[data-play]")) return play(!playing);
  if (target.closest("[data-seek]")) return seek(target.closest("[data-seek]"), event.clientX);
  const link = target.closest("#replay a");
  if (!link || link.pathname !== location.pathname || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { steps, events } = link.dataset;
  if (steps || events) move(steps ? "steps" : "events", Number(steps ?? events));
  else move(link.closest(".seg") ? "change" : "jump", `${link.pathname}/part${link.search}`);
}

/** Other breakpoints, at the same place. */
function choose(event) {
  const form = event.target.closest("#stops");
  if (!form || event.target.type === "text") return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(form));
  form.elements.add.value = "";
  move("change", `${location.pathname}/part?${query}`);
}

if (box()) {
  document.addEventListener("click", click);
  document.addEventListener("change", choose);
  document.addEventListener("submit", choose);
  document.addEventListener("input", ({ target }) => target.id === "pos" && move("at", Number(target.value)));
  document.addEventListener("htmx:before:swap", (event) => {
    // News of the run that was asked for before the reader moved on would lead back; the pulse asks again.
    const { sourceElement, request } = event.detail.ctx;
    if (sourceElement?.id !== "pulse") return;
    const from = new URL(request.action, location).searchParams.get("from");
    if (busy || (from && from !== box().dataset.at)) event.preventDefault();
  });
  document.addEventListener("htmx:after:swap", () => busy || arrive(false));
}
