// Loads the steps of a transcript around the visible ones. The page holds a part of the steps; the gaps above and below it
// are as high as the others would be. Tells outline.js the step at the top of the window with `transcript:at`.

const near = () => Math.max(600, 2 * innerHeight); // px; load more when less is left above or below, before a gap is in view
const box = () => document.getElementById("transcript");
const number = (name) => Number(box().dataset[name]); // first, end and total
const news = () => Number(document.getElementById("outline").dataset.total); // the total at the last update
const held = () => `${number("first")}-${number("end")}`;
const steps = () => [...document.querySelectorAll("#transcript > .ts")];
const bar = document.getElementById("trbar");
const edge = () => parseFloat(getComputedStyle(bar).top) + bar.offsetHeight; // where the steps begin in the window
const top = (n) => document.getElementById(`t${n}`)?.getBoundingClientRect().top;
let busy, asked, isOld; // the request in progress, the step in the middle of the window at the last one, and whether its response lacks the newest steps
let aim, goal, before = new Map(), wasAtEnd, wasAt; // the step moved to, until the user scrolls, and the one to move to; before the last swap, where each step was, whether the end was in view, and the scroll position

const idle = async () => { while (busy) await busy; };
const isAtBottom = () => scrollY > 0 && innerHeight + scrollY > document.documentElement.scrollHeight - 40;
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });

/** The first step below the bars, or below `y`. Steps load around the middle one: around the first, visible ones may be missing. */
const current = (y = edge() + 4) => steps().find((step) => step.getBoundingClientRect().bottom > y) ?? steps().at(-1);
const middle = () => Number(current((edge() + innerHeight) / 2).dataset.n);

/** After a change: sizes the gaps as if the other steps were like those on the page. Keeps the end in view, or puts step `n` at `place`. */
function settle(isAtEnd, n, place) {
  const all = steps();
  const height = all.length ? (all.at(-1).getBoundingClientRect().bottom - all[0].getBoundingClientRect().top) / all.length : 0;
  document.getElementById("gap-above").setAttribute("height", Math.round(height * number("first")));
  document.getElementById("gap-below").setAttribute("height", Math.round(height * (number("total") - number("end"))));
  if (isAtEnd) toEnd(); // new steps and gaps have other heights
  else if (place !== undefined && top(n) !== undefined) scrollBy({ top: top(n) - place, behavior: "instant" });
  tell();
}

/** Loads the steps around step `n`. Keeps its position in the window. If it wasn't loaded, puts it at the top, or as far from there as the user has scrolled on. */
async function load(n, isAgain) {
  const [from, had, find] = [scrollY, held(), document.getElementById("found")?.dataset.text ?? ""];
  const url = `${location.pathname.replace(/\/$/, "")}/transcript/part?${new URLSearchParams({ around: n, find })}`;
  const request = htmx.ajax("GET", url, { source: "#outline", target: "#transcript", swap: "outerMorph" });
  await (busy = Promise.resolve(request).catch(() => (wasAtEnd = false)).finally(() => (busy = undefined)));
  if (isOld && !isAgain) return load(n, true);
  const isMoved = scrollY !== from; // the user has scrolled on
  settle(wasAtEnd, n, before.get(n) ?? edge() + from - (wasAt ?? from));
  if (isMoved || held() !== had) requestAnimationFrame(check);
}

/** Loads other steps if the visible part is almost at an end of those on the page. */
function check() {
  const all = steps();
  if (busy || !all.length) return;
  const [first, last] = [all[0].getBoundingClientRect().top, all.at(-1).getBoundingClientRect().bottom];
  const [above, below, n] = [number("first"), number("total") - number("end"), middle()];
  if ((first > innerHeight && above) || (last < 0 && below)) { // only a gap is visible: load the step that would be there
    const height = (last - first) / all.length;
    const hidden = Math.round(last < 0 ? number("end") + (edge() - last) / height : above - (first - edge()) / height);
    return load(isAtBottom() ? number("total") - 1 : Math.max(0, Math.min(number("total") - 1, hidden)));
  }
  if (((above && first > -near()) || (below && last < innerHeight + near())) && n !== asked) load((asked = n));
}

/** Moves to step `n`. Loads it if it isn't on the page. */
async function go(n) {
  await idle(); // a request may bring steps without this one
  if (goal === n && top(n) === undefined) await load(n);
  if (goal !== n) return; // another key was pressed
  if (top(n) !== undefined) scrollBy({ top: top(n) - edge(), behavior: "instant" });
  // A field in which the user types keeps the focus.
  if (!document.activeElement?.matches("input[type=search]")) document.querySelector(`#t${n} .no[href]`)?.focus({ preventScroll: true });
  ([aim, goal] = [n]), tell();
  const address = new URL(`#t${n}`, location);
  for (const [name, value] of [["tab", "transcript"], ["step", n]]) address.searchParams.set(name, value);
  history.replaceState(history.state, "", address);
}
const state = () => ({ goal, at: aim ?? Number(current()?.dataset.n ?? 0), total: number("total"), held: held(), isAtEnd: number("end") === number("total") && isAtBottom() });
const tell = () => document.dispatchEvent(new CustomEvent("transcript:at", { detail: state() }));

if (box()) {
  addEventListener("scroll", () => (tell(), check()), { passive: true }), addEventListener("resize", () => settle(isAtBottom()));
  for (const hand of ["wheel", "pointerdown", "touchmove", "keydown"]) addEventListener(hand, () => (aim = undefined), { capture: true, passive: true });
  document.addEventListener("transcript:go", ({ detail }) => (detail === "end" ? toEnd() : go((goal = detail))));
  document.addEventListener("transcript:reload", ({ detail }) => idle().then(() => current() && load(middle())).then(() => detail()));
  document.addEventListener("htmx:before:swap", (event) => {
    [before, wasAtEnd, wasAt] = [new Map(steps().map((step) => [Number(step.dataset.n), step.getBoundingClientRect().top])), isAtBottom(), scrollY];
    const { ctx } = event.detail;
    isOld = !isOld && ctx.sourceElement?.id === "outline" && Number(/data-total="(\d+)"/.exec(ctx.text)?.[1]) < news();
    if (isOld) event.preventDefault();
  });
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    if (ctx.sourceElement?.id !== "pulse") return;
    box().dataset.total = news();
    const n = [...before.keys()].find((n) => before.get(n) >= edge() - 4 && top(n) !== undefined);
    settle(wasAtEnd, n, before.get(n)), check();
  });
  const target = /^#t\d+$/.test(location.hash) && document.querySelector(location.hash);
  settle(false);
  if (!target && number("first") && number("end") === number("total")) toEnd();
  else if (target || number("first")) scrollBy({ top: (target || steps()[0] || box()).getBoundingClientRect().top - edge(), behavior: "instant" });
  requestAnimationFrame(check);
}
