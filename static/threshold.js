// Moves the threshold of a chart: by dragging its handle, or with the arrow keys. The form sends the value in its field.

const handle = (target) => target.closest?.("[data-hand]");
const form = () => document.getElementById("chartform");
const NEAR = 4; // px; a smaller movement is a click
let dragged; // { hand, from, moved }

/** Moves a threshold and writes it into the field. */
function move(hand, score) {
  const [low, high] = ["valuemin", "valuemax"].map((name) => Number(hand.getAttribute(`aria-${name}`)));
  const value = Math.min(high, Math.max(low, Number(score.toFixed(high - low > 20 ? 0 : 2))));
  const [top, bottom] = [Number(hand.dataset.top), Number(hand.dataset.bottom)];
  const y = bottom - ((value - low) / (high - low || 1)) * (bottom - top);
  const svg = hand.closest("svg");
  let line = svg.querySelector(".thr");
  if (!line) {
    line = document.createElementNS(svg.namespaceURI, "line");
    line.setAttribute("class", "thr");
    line.setAttribute("x2", "100%");
    svg.insertBefore(line, hand);
  }
  for (const name of ["y1", "y2"]) line.setAttribute(name, y);
  svg.querySelector(".below")?.setAttribute("y", y);
  svg.querySelector(".below")?.setAttribute("height", bottom - y);
  hand.classList.remove("off");
  hand.querySelector("svg").setAttribute("y", y);
  hand.querySelector("text").textContent = value;
  hand.setAttribute("aria-valuenow", value);
  hand.removeAttribute("aria-valuetext");
  form().elements.threshold.value = value;
}

/** The score at a y coordinate of the window. */
function scoreAt(hand, y) {
  const [low, high] = ["valuemin", "valuemax"].map((name) => Number(hand.getAttribute(`aria-${name}`)));
  const [top, bottom] = [Number(hand.dataset.top), Number(hand.dataset.bottom)];
  const at = (bottom - (y - hand.closest("svg").getBoundingClientRect().top)) / (bottom - top);
  return low + Math.min(1, Math.max(0, at)) * (high - low);
}

document.addEventListener("pointerdown", (event) => {
  const hand = handle(event.target);
  if (!hand || event.button !== 0 || !form()) return;
  dragged = { hand, from: event.clientY, moved: false };
  hand.setPointerCapture(event.pointerId);
});

document.addEventListener("pointermove", ({ clientY }) => {
  if (!dragged) return;
  dragged.moved ||= Math.abs(clientY - dragged.from) >= NEAR;
  if (dragged.moved) move(dragged.hand, scoreAt(dragged.hand, clientY));
});

document.addEventListener("pointerup", () => {
  const { moved } = dragged ?? {};
  dragged = undefined;
  if (moved) form().requestSubmit();
});

document.addEventListener("pointercancel", () => (dragged = undefined));

/** Handles keys on a focused threshold: arrows move it, Enter applies it, Delete removes it. */
function keyOnHandle(event, hand) {
  const [low, high, now] = ["min", "max", "now"].map((name) => Number(hand.getAttribute(`aria-value${name}`)));
  const by = (high - low) / 100;
  const to = {
    ArrowUp: now + by, ArrowRight: now + by, ArrowDown: now - by, ArrowLeft: now - by,
    PageUp: now + 10 * by, PageDown: now - 10 * by, Home: low, End: high,
  }[event.key];
  if (to !== undefined) move(hand, to);
  else if (event.key === "Delete" || event.key === "Backspace") form().elements.threshold.value = "";
  else if (event.key !== "Enter") return;
  event.preventDefault();
  if (to === undefined) form().requestSubmit();
}

document.addEventListener("keydown", (event) => {
  const hand = handle(event.target);
  if (hand && form() && !event.ctrlKey && !event.metaKey && !event.altKey) keyOnHandle(event, hand);
});
