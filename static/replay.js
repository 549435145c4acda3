// Where is the replay, and does it play? The server knows the run: this asks for `#replay` at another place, one request
// at a time, and puts the place into the address. Walking replaces the address, jumping adds one to go back to.

const box = () => document.getElementById("replay");
let moves = []; // [what, how far]: asked for while a request was under way
let busy = false;
let playing = false;
let timer;
let shown = box()?.dataset.at; // the position whose events are in sight

/** Goes on by events or by steps, or to a position; moves of one kind that wait for the server become one. */
function move(kind, by) {
  const last = moves.at(-1);
  if (last?.[0] === kind && kind !== "at") last[1] += by;
  else if (last?.[0] === "at" && kind === "at") last[1] = by;
  else moves.push([kind, by]);
  send();
}

async function send() {
  if (busy || !moves.length) return;
  const [kind, by] = moves.shift();
  const { part, at } = box().dataset;
  await load(kind === "at" ? `${part}at=${by}` : `${part}at=${at}&${kind}=${by}`, false);
  send();
}

async function load(url, jump) {
  clearTimeout(timer);
  busy = true;
  try {
    await htmx.ajax("GET", url, { source: "#replay", target: "#replay", swap: "outerMorph" });
  } catch {
    play(false); // the board is away; the page says so
  }
  busy = false;
  arrive(jump);
}

/** The page shows another place: the address, the slider and the clock follow. */
function arrive(jump) {
  const { at, url, skip, wait } = box().dataset;
  if (at !== shown) document.querySelector(".phase.now")?.scrollIntoView({ block: "nearest" });
  shown = at;
  if (url !== location.pathname + location.search) {
    history[jump ? "pushState" : "replaceState"]({ htmx: true }, "", url);
  }
  const slider = document.getElementById("pos");
  if (slider && document.activeElement !== slider) slider.value = at;
  clearTimeout(timer);
  if (!playing || busy) return;
  if (skip) timer = setTimeout(step, Number(wait));
  else if (!("alive" in box().dataset)) play(false);
}

async function step() {
  if (busy) return;
  const { part, at, skip } = box().dataset;
  await load(`${part}at=${at}&events=${skip}`, false);
  if ("stop" in box().dataset) play(false);
  send();
}

function play(on) {
  playing = on;
  document.querySelector("[data-play]")?.setAttribute("aria-pressed", String(on));
  if (on) arrive(false);
  else clearTimeout(timer);
}

function click(event) {
  const { target } = event;
  if (target.closest("[data-play]")) return play(!playing);
  const chart = target.closest("[data-seek]")?.getBoundingClientRect();
  if (chart) {
    const share = (event.clientX - chart.left) / chart.width;
    return move("at", Math.min(Math.floor(share * (Number(box().dataset.last) + 1)), Number(box().dataset.last)));
  }
  const link = target.closest("#replay a");
  if (!link || link.pathname !== location.pathname || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { steps, events } = link.dataset;
  if (steps || events) move(steps ? "steps" : "events", Number(steps ?? events));
  else if (!busy) load(`${link.pathname}/part${link.search}`, true);
}

if (box()) {
  document.addEventListener("click", click);
  document.addEventListener("input", ({ target }) => target.id === "pos" && move("at", Number(target.value)));
  document.addEventListener("htmx:before:swap", (event) => {
    // News of the run that left before the reader moved on would lead back; the pulse asks again.
    const { sourceElement, request } = event.detail.ctx;
    if (sourceElement?.id !== "pulse") return;
    const sent = new URL(request.action, location).searchParams.get("from");
    if (busy || (sent && sent !== box().dataset.at)) event.preventDefault();
  });
  document.addEventListener("htmx:after:swap", () => !busy && arrive(false));
}
