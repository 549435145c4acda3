// Loads the rows of the step list around the visible lines. When they run out, `#steprows` is requested again and morphed,
// so that rows which stay keep their elements. Also shows the step of a row that is clicked.

const NEAR = 8; // lines to keep loaded above and below the visible ones
const box = document.getElementById("steps");
const list = () => document.getElementById("steprows");
const shown = () => document.getElementById("stepview")?.dataset.n;
const part = `${location.pathname.replace(/\/$/, "")}/steps/`;
const verdict = document.getElementById("verdict-line");
let busy = false;
let asked; // the middle line of the last request
let missed = false; // whether another step was chosen during a request

async function fetchRows(query) {
  busy = true;
  try {
    const visible = Math.ceil(box.clientHeight / (list().querySelector("li")?.offsetHeight || 26));
    const url = `${part}part?${query}&count=${visible + 3 * NEAR}&shown=${shown() ?? ""}`;
    await htmx.ajax("GET", url, { source: "#steps", target: "#steprows", swap: "outerMorph" });
  } finally {
    busy = false;
    if (missed) mark((missed = false));
    requestAnimationFrame(check); // the user may have scrolled meanwhile
  }
}

/** Loads the visible lines, if they or their neighbors are missing. */
async function check() {
  if (busy) return;
  const [{ above, lines, below }, height] = [list().dataset, list().querySelector("li")?.offsetHeight];
  if (!height || (above === "0" && below === "0")) return;
  const from = Math.floor(box.scrollTop / height);
  const to = from + Math.ceil(box.clientHeight / height);
  const short = (Number(above) > 0 && from - NEAR < above) || (Number(below) > 0 && to + NEAR > Number(above) + Number(lines));
  const middle = Math.floor((from + to) / 2);
  if (!short || middle === asked) return;
  asked = middle;
  await fetchRows(`line=${middle}`);
}

/** Marks the row of the current step. Loads the row if it's missing. */
async function mark(fetched) {
  const row = document.querySelector(`#step-${shown()} > a`);
  for (const other of list().querySelectorAll("a[aria-current]")) if (other !== row) other.removeAttribute("aria-current");
  row?.setAttribute("aria-current", "true");
  if (busy && !row && !fetched) missed = true;
  if (row || fetched || busy || shown() === undefined || "picked" in list().dataset) return;
  asked = undefined;
  await fetchRows(`step=${shown()}`);
  mark(true);
}

/** Updates the links that depend on the current step. */
function lead() {
  for (const link of document.querySelectorAll("[data-at-step]")) {
    const url = new URL(link.href);
    url.searchParams.set("step", shown());
    link.href = url;
  }
}

/** Sets where the list begins in the window, so that it can end inside the window. */
function place() {
  // At the end of the page the list is pushed above its sticky position. Without this bound, it would grow and be pushed
  // further.
  const least = parseFloat(getComputedStyle(box).top) || 0;
  box.style.setProperty("--list-top", `${Math.max(box.getBoundingClientRect().top, least)}px`);
}

const show = (url, push) => htmx.ajax("GET", url, { source: "#steprows", target: "#stepview", swap: "outerHTML", push });

if (box) {
  box.addEventListener("scroll", check, { passive: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("#steprows a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(`${part}${link.parentElement.id.slice("step-".length)}/part`, link.href);
  });
  document.addEventListener("steps:show", ({ detail }) => show(`${part}${detail}`));
  document.addEventListener("steps:mark", ({ detail }) => shown() !== undefined && show(`${part}${shown()}/part?to=${detail}`));
  document.addEventListener("htmx:after:swap", async ({ detail: { ctx } }) => {
    if (ctx.sourceElement?.id === "pulse") asked = undefined; // the list may have grown here
    const chosen = ctx.target?.id === "stepview";
    await mark(!chosen);
    if (!chosen) return;
    lead();
    verdict?.removeAttribute("open"); // the list needs the space
    document.dispatchEvent(new CustomEvent("steps:shown"));
  });
  document.addEventListener("steps:picked", () => {
    asked = undefined;
    box.scrollTop = 0;
    place();
  });
  for (const [of, what] of [[window, "scroll"], [window, "resize"], [verdict, "toggle"]]) of?.addEventListener(what, place, { passive: true });
  place(); // before follow.js scrolls it
  requestAnimationFrame(check); // after that
}
