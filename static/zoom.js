// Chooses the visible part of a timeline by dragging over it and by the wheel.

const box = () => document.getElementById("lanes");
const NEAR = 4; // px; a smaller movement is a click
let dragged; // { lanes, from, brush }
let wasDragged = false; // the click that ends a drag must not open anything

const zoom = (left, right) => document.dispatchEvent(new CustomEvent("lanes:zoom", { detail: { left, right } }));

/** The position of `x` in a picture, as a share of its width. */
function share(lanes, x) {
  const { left, width } = lanes.querySelector("svg").getBoundingClientRect();
  return Math.min(1, Math.max(0, (x - left) / width));
}

/** The place of `x` on the whole scale. */
function place(lanes, x) {
  const [from, to] = [Number(lanes.dataset.left), Number(lanes.dataset.right)];
  return from + share(lanes, x) * (to - from);
}

function brush(x) {
  const { lanes, from } = dragged;
  if (!dragged.brush && Math.abs(x - from) < NEAR) return;
  const svg = lanes.querySelector("svg");
  dragged.brush ??= svg.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
  const [a, b] = [share(lanes, Math.min(from, x)), share(lanes, Math.max(from, x))];
  const attributes = { class: "tl-brush", x: `${a * 100}%`, width: `${(b - a) * 100}%`, y: 0, height: "100%" };
  for (const [name, value] of Object.entries(attributes)) dragged.brush.setAttribute(name, value);
}

function drop() {
  const done = dragged;
  dragged = undefined;
  wasDragged = Boolean(done?.brush);
  done?.brush?.remove();
  return done;
}

function release({ clientX }) {
  const done = drop();
  if (!wasDragged) return;
  const [a, b] = [done.from, clientX].map((x) => place(done.lanes, x));
  if (a !== b) zoom(Math.min(a, b), Math.max(a, b));
}

/** Zooms around the pointer. At its limit, and where the page itself can scroll up, the wheel scrolls the page. */
function turn(event) {
  if (!event.deltaY || event.shiftKey || !event.target.closest?.("#lanes svg")) return;
  const [left, right] = [Number(box().dataset.left), Number(box().dataset.right)];
  const [isIn, isWhole] = [event.deltaY < 0, right - left > 0.9999];
  if (isWhole && !(isIn && (scrollY === 0 || event.ctrlKey))) return;
  event.preventDefault();
  const [middle, by] = [place(box(), event.clientX), isIn ? 0.8 : 1.25];
  const width = Math.min(1, (right - left) * by);
  const from = Math.min(1 - width, Math.max(0, middle - (middle - left) * by));
  zoom(from, from + width);
}

if (box()) {
  document.addEventListener("pointerdown", ({ button, target, clientX }) => {
    const lanes = target.closest?.("#timeline .tl2 svg")?.parentElement;
    [dragged, wasDragged] = [button === 0 && lanes ? { lanes, from: clientX } : undefined, false];
  });
  document.addEventListener("pointermove", ({ clientX, buttons }) => {
    if (dragged && !buttons) drop();
    if (dragged) brush(clientX);
  });
  document.addEventListener("pointerup", release);
  document.addEventListener("pointercancel", drop);
  document.addEventListener(
    "click",
    (event) => {
      const isEnd = wasDragged && event.target.closest?.("#timeline .tl2");
      wasDragged = false;
      if (!isEnd) return;
      event.preventDefault(); // the drag may have ended over a block
      event.stopImmediatePropagation();
    },
    { capture: true },
  );
  document.addEventListener("wheel", turn, { passive: false });
  // Otherwise the browser would drag a link.
  document.addEventListener("dragstart", (event) => event.target.closest?.("#timeline svg") && event.preventDefault());
}
