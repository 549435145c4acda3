// Shows another part of a timeline. The server sends the visible part, so that blocks which were merged can be seen, and the
// address names it.

const box = () => document.getElementById("lanes");
let busy = false;
let wanted;

/** Shows another part of the run. The focus goes back to the block that had it. */
async function show(url) {
  wanted = url;
  if (busy) return;
  busy = true;
  const focused = document.activeElement?.closest("#lanes a")?.dataset;
  const detail = focused && { n: focused.n, lane: focused.lane };
  try {
    while (wanted) {
      const next = wanted;
      wanted = undefined;
      await htmx.ajax("GET", next, { source: "#timeline", target: "#timeline", select: "#timeline", swap: "outerMorph" });
      history.replaceState(history.state, "", next);
    }
  } finally {
    busy = false;
  }
  if (detail) document.dispatchEvent(new CustomEvent("lanes:focus", { detail }));
}

/** The seconds since the start of the run at a place of the whole scale. */
function seconds(place) {
  const points = box().dataset.scale.split(" ").map((point) => point.split(",").map(Number));
  const at = points.findIndex(([x]) => x > place);
  if (at <= 0) return points.at(at)[1] / 1e6;
  const [[x0, t0], [x1, t1]] = [points[at - 1], points[at]];
  return Math.round(t0 + ((t1 - t0) * (place - x0)) / (x1 - x0)) / 1e6;
}

/** Shows the part between two places of the whole scale. */
function zoom({ detail: { left, right } }) {
  const url = new URL(location.href);
  for (const name of ["from", "to"]) url.searchParams.delete(name);
  if (left > 0 || right < 1) {
    url.searchParams.set("from", seconds(Math.max(0, left)));
    url.searchParams.set("to", seconds(Math.min(1, right)));
  }
  show(url.href);
}

function click(event) {
  const link = event.target.closest?.("#timeline a[data-zoom]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(link.href);
}

if (box()) {
  document.addEventListener("click", click);
  document.addEventListener("lanes:zoom", zoom);
}
