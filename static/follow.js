// Lets the list of steps follow a live run. If on, the list stays at its end. If off, nothing moves and a pill counts the
// new steps.

const NEAR = 30; // px; a smaller distance counts as the end
const HEAD = 60; // px; height of the list's head
const steps = () => document.getElementById("steps");
const pill = () => document.getElementById("pill");
const count = () => Number(document.getElementById("steprows")?.dataset.steps ?? 0);
const room = (box) => box.scrollHeight - box.clientHeight - box.scrollTop;

let on = document.querySelector("[data-follow]")?.getAttribute("aria-pressed") === "true";
let seen = count(); // number of steps that the user has seen
let byHand = false; // whether the user is scrolling

function show() {
  for (const button of document.querySelectorAll("[data-follow]")) button.setAttribute("aria-pressed", String(on));
  if (!pill()) return;
  for (const row of document.querySelectorAll("#steprows li[id]")) {
    if (Number(row.id.slice("step-".length)) >= seen) row.setAttribute("data-new", "");
    else row.removeAttribute("data-new");
  }
  const unseen = count() - seen;
  pill().hidden = on || unseen === 0;
  pill().textContent = `↓ ${unseen} new step${unseen === 1 ? "" : "s"}`;
}

function set(follow) {
  on = follow;
  if (on) toEnd();
  show();
}

function toEnd() {
  byHand = false;
  seen = count();
  steps()?.scrollTo({ top: steps().scrollHeight });
}

/** Scrolls the list, but not the page, to the selected row if it isn't visible. */
function toSelected() {
  const row = document.querySelector("#steps a[aria-current]")?.getBoundingClientRect();
  if (!row) return;
  if (!document.querySelector("#steps li:has(> a[aria-current]) ~ li") && document.getElementById("steprows").dataset.below === "0") {
    steps().scrollTop = steps().scrollHeight; // the end of the run is below the last step
    return;
  }
  const { top, bottom } = steps().getBoundingClientRect();
  const inWindow = Math.min(bottom, innerHeight); // the list isn't visible if it begins below the window
  const end = inWindow - top > 3 * HEAD ? inWindow : bottom;
  if (row.top < top + HEAD || row.bottom > end) steps().scrollTop += row.top - (top + end) / 2;
}

function toUnseen() {
  const first = document.querySelector(`#step-${seen} > a`);
  set(true);
  first?.scrollIntoView({ block: "nearest" });
  first?.focus({ preventScroll: true });
}

document.addEventListener("click", ({ target }) => {
  if (target.closest("#pill")) toUnseen();
  else if (target.closest("[data-follow]")) set(!on);
  else if (target.closest("#steps a, a[rel=prev], a[rel=next]")) {
    byHand = false;
    set(false); // a user who chooses a step wants to read it
  }
});

for (const hand of ["wheel", "touchmove", "pointerdown"]) {
  const scrolls = (event) => (byHand ||= event.target.closest?.("#steps") && !event.target.closest("a"));
  document.addEventListener(hand, scrolls, { passive: true });
}

// Scroll events don't bubble, so the listener captures them.
document.addEventListener(
  "scroll",
  ({ target }) => {
    if (target.id !== "steps") return;
    if (on && room(target) > NEAR) set(false);
    else if (!on && byHand && room(target) <= NEAR) set(true);
  },
  { capture: true, passive: true },
);

document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  // The server selects the newest step only for pages that follow.
  if (on && ctx.sourceElement.id === "pulse") ctx.request.body.set("follow", "1");
});
document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (on && ctx.sourceElement?.id === "pulse") toEnd();
  show();
});
document.addEventListener("steps:shown", () => on || toSelected());

if (on) toEnd();
else toSelected();
show();
