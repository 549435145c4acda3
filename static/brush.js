// Zooms a chart of scores to the range that the user drags over. The ends are also fields of the form, and can be typed.

const chart = (target) => target.closest?.("[data-points]");
const handle = (target) => target.closest?.("[data-hand]");
const NEAR = 4; // px; a smaller movement is a click
let dragged; // { box, from, brush }
let wasDragged = false; // the click that ends a drag must not open anything

/** The position of `x` in a chart, as a share of its width. */
function share(box, x) {
  const { left, width } = box.querySelector("svg.chart").getBoundingClientRect();
  return Math.min(1, Math.max(0, (x - left) / width));
}

function brush(x) {
  const { box, from } = dragged;
  if (!dragged.brush) {
    if (Math.abs(x - from) < NEAR) return;
    const svg = box.querySelector("svg.chart");
    dragged.brush = document.createElementNS(svg.namespaceURI, "rect");
    dragged.brush.setAttribute("class", "brush");
    dragged.brush.setAttribute("y", 0);
    dragged.brush.setAttribute("height", svg.getAttribute("height"));
    svg.append(dragged.brush);
  }
  const [a, b] = [share(box, Math.min(from, x)), share(box, Math.max(from, x))];
  dragged.brush.setAttribute("x", `${a * 100}%`);
  dragged.brush.setAttribute("width", `${(b - a) * 100}%`);
}

/** Loads the page with the selected range in the address. */
function zoom({ box, from }, x) {
  const [low, high] = [Number(box.dataset.from), Number(box.dataset.to)];
  const at = (place) => low + share(box, place) * (high - low);
  let [first, last] = [Math.floor(at(Math.min(from, x))), Math.ceil(at(Math.max(from, x)))];
  if (last - first < 1) last = first + 1;
  const url = new URL(location.href);
  url.searchParams.set("from", first);
  url.searchParams.set("to", last);
  url.searchParams.delete("before");
  location.assign(url);
}

document.addEventListener("pointerdown", (event) => {
  wasDragged = false;
  const box = chart(event.target);
  if (event.button === 0 && box?.dataset.to && !handle(event.target) && document.getElementById("chartform")) dragged = { box, from: event.clientX };
});

document.addEventListener("pointermove", ({ clientX, buttons }) => {
  if (dragged && !buttons) drop();
  if (dragged) brush(clientX);
});

function drop() {
  dragged?.brush?.remove();
  dragged = undefined;
}

document.addEventListener("pointerup", ({ clientX }) => {
  const done = dragged;
  wasDragged = Boolean(done?.brush);
  drop();
  if (wasDragged) zoom(done, clientX);
});

document.addEventListener("pointercancel", drop);

document.addEventListener(
  "click",
  (event) => {
    if (!wasDragged && !handle(event.target)) return;
    wasDragged = false;
    event.preventDefault(); // the drag may have ended over a point
    event.stopImmediatePropagation();
  },
  { capture: true },
);

// Otherwise the browser would drag the picture of a link.
document.addEventListener("dragstart", (event) => chart(event.target) && event.preventDefault());

