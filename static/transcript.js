// Loads the steps of a transcript around the visible ones. The page holds a part of the steps; the gaps above and below it
// are as high as the others would be. Tells outline.js the step at the top of the window with `transcript:at`.

const NEAR = 600; // px; load more when less than this is left above or below
const TABS = 81; // px; the height of the bars above the transcript's own
const box = () => document.getElementById("transcript");
const number = (name) => Number(box().dataset[name]); // first, end and total
const steps = () => [...document.querySelectorAll("#transcript > .ts")];
const edge = () => TABS + document.getElementById("trbar").offsetHeight; // where the steps begin in the window
const top = (n) => document.getElementById(`t${n}`)?.getBoundingClientRect().top;
const url = `${location.pathname.replace(/\/$/, "")}/transcript/part`;
let busy; // the request in progress
let asked; // the step at the top of the window at the last request
let before = new Map(); // where each step was in the window before the last change

const isAtEnd = () => number("end") === number("total") && innerHeight + scrollY > document.documentElement.scrollHeight - 40;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });

/** The first step below the bars. */
function current() {
  const all = steps();
  return all.find((step) => step.getBoundingClientRect().bottom > edge() + 4) ?? all.at(-1);
}

/** Gives the gaps the height that the other steps would have if they were like these. */
function size() {
  const all = steps();
  if (!all.length) return;
  const height = (all.at(-1).getBoundingClientRect().bottom - all[0].getBoundingClientRect().top) / all.length;
  document.getElementById("gap-above").setAttribute("height", Math.round(height * number("first")));
  document.getElementById("gap-below").setAttribute("height", Math.round(height * (number("total") - number("end"))));
}

/** Loads the steps around step `n`, which stays where it is in the window, or comes to the edge if it isn't there yet. */
async function load(n) {
  const from = scrollY;
  try {
    await (busy = htmx.ajax("GET", `${url}?around=${n}`, { source: "#outline", target: "#transcript", swap: "outerMorph" }));
    size();
    const place = before.get(n) ?? (scrollY === from ? edge() : undefined); // else the user went on to another place
    if (place !== undefined && top(n) !== undefined) scrollBy({ top: top(n) - place, behavior: "instant" });
  } finally {
    busy = undefined;
  }
  tell();
  requestAnimationFrame(check); // the user may have scrolled meanwhile
}

/** Loads other steps if the visible part is almost at an end of those on the page. */
function check() {
  const all = steps();
  if (busy || !all.length) return;
  const [first, last] = [all[0].getBoundingClientRect().top, all.at(-1).getBoundingClientRect().bottom];
  const [above, below] = [number("first"), number("total") - number("end")];
  if ((first > innerHeight && above) || (last < 0 && below)) {
    // Only a gap is visible: load the step that would be there.
    const height = (last - first) / all.length;
    const n = Math.round(last < 0 ? number("end") + (edge() - last) / height : above - (first - edge()) / height);
    return load(Math.max(0, Math.min(number("total") - 1, n)));
  }
  const n = Number(current().dataset.n);
  if (((above && first > -NEAR) || (below && last < innerHeight + NEAR)) && n !== asked) load((asked = n));
}

/** Moves to step `n`. Loads it if it isn't on the page. */
async function go(n) {
  while (busy) await busy; // it may bring steps without this one
  if (top(n) === undefined) await load(n);
  const step = document.getElementById(`t${n}`);
  if (step) scrollBy({ top: top(n) - edge(), behavior: "instant" });
  step?.querySelector(".no[href]")?.focus({ preventScroll: true });
  tell(); // before the scroll event, for a key pressed at once
  const address = new URL(`#t${n}`, location);
  address.searchParams.set("tab", "transcript");
  address.searchParams.set("step", n);
  history.replaceState(history.state, "", address);
}

function tell() {
  const at = Number(current()?.dataset.n ?? 0);
  document.dispatchEvent(new CustomEvent("transcript:at", { detail: { at, total: number("total"), held: box().dataset.first + box().dataset.end, isAtEnd: isAtEnd() } }));
}

if (box()) {
  addEventListener("scroll", () => (tell(), check()), { passive: true });
  addEventListener("resize", size);
  document.addEventListener("transcript:go", ({ detail }) => (detail === "end" ? toEnd() : go(detail)));
  document.addEventListener("htmx:before:swap", () => {
    before = new Map(steps().map((step) => [Number(step.dataset.n), step.getBoundingClientRect().top]));
  });
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => ctx.sourceElement?.id === "pulse" && (size(), tell()));
  size();
  const target = /^#t\d+$/.test(location.hash) && document.querySelector(location.hash);
  if (!target && number("first") && number("end") === number("total")) toEnd();
  else if (target || number("first")) scrollBy({ top: (target || steps()[0]).getBoundingClientRect().top - edge(), behavior: "instant" });
  tell();
  requestAnimationFrame(check);
}
