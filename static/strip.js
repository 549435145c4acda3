// Marks the current step in the strip of all steps, and opens the step that is clicked. The links over the picture lead to
// ranges of steps, but a click here is exact. For selected steps: shows the selection in place, and keeps the keys within
// the list.

const shown = () => document.getElementById("stepview")?.dataset.n;
const isPicked = () => "picked" in (document.getElementById("steprows")?.dataset ?? {});

/** Marks the current step in the strip. */
function point() {
  const strip = document.getElementById("strip");
  const here = strip?.querySelector(".here");
  if (!here || shown() === undefined) return;
  const { steps, columns } = strip.dataset;
  const x = Math.floor((Number(shown()) * Number(columns)) / Number(steps));
  here.setAttribute("d", `M${x}.5 0v${here.ownerSVGElement.viewBox.baseVal.height}`);
}

/** Shows the step in the clicked column of pixels. If the column has several, shows the most notable one. */
function press(event) {
  const links = event.target.closest?.(".strip-links");
  if (!links || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const { left, width } = links.getBoundingClientRect();
  const steps = Number(links.closest(".strip").dataset.steps);
  const column = Math.min(Math.max(0, Math.floor(event.clientX - left)), Math.ceil(width) - 1); // in pixels
  const first = Math.min(steps - 1, Math.floor((column * steps) / width));
  const until = Math.max(first + 1, Math.floor(((column + 1) * steps) / width));
  const detail = `${first}/part?to=first&until=${until}`;
  document.dispatchEvent(new CustomEvent("steps:show", { detail }));
}

/** Moves to the next step of the list, if the list is a selection. */
function walk(event) {
  const link = event.target.closest?.("a[rel=next], a[rel=prev]");
  const row = document.getElementById(`step-${shown()}`);
  if (!link || !row || !isPicked()) return;
  const next = link.rel === "next" ? row.nextElementSibling : row.previousElementSibling;
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  next.querySelector("a").click();
}

/** Shows the selection in place. */
async function pick({ target }) {
  const form = target.closest?.("#pick");
  if (!form) return;
  const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const url = `${form.getAttribute("action")}${chosen.size ? `?${chosen}` : ""}`;
  await htmx.ajax("GET", url, { source: "#steps", target: "#main", select: "#main", swap: "outerMorph", push: url });
  document.dispatchEvent(new CustomEvent("steps:picked"));
}

if (document.getElementById("steps")) {
  document.addEventListener("click", press);
  document.addEventListener("click", walk, { capture: true });
  document.addEventListener("change", pick);
  document.addEventListener("htmx:after:swap", point);
}
