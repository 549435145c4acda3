// Shows the point of a chart nearest to the pointer, or selected with the arrow keys. Enter and a click open its step.

const links = (box) => [...box.querySelectorAll("svg a")];
let pointer; // the last pointer position over a chart: { box, x, y }

/** The center of a point, in window coordinates. */
function middle(link) {
  const { x, y, width, height } = (link.querySelector("circle, path") ?? link).getBoundingClientRect();
  return [x + width / 2, y + height / 2];
}

/** The point nearest to a position in the window. The distance along the axis counts most. */
function nearest({ box, x, y }) {
  let best, least = Infinity;
  for (const link of links(box)) {
    const [linkX, linkY] = middle(link);
    const far = Math.abs(linkX - x) * 4 + Math.abs(linkY - y);
    if (far < least) [best, least] = [link, far];
  }
  return best;
}

function show(box, link) {
  for (const shown of box.querySelectorAll("[data-at]")) shown.removeAttribute("data-at");
  link?.setAttribute("data-at", "");
  const words = link?.querySelector("title").textContent ?? "";
  box.parentElement.querySelector("[data-readout]").textContent = words;
}

/** The point to which an arrow key moves the focus. */
function step(box, key) {
  const all = links(box);
  const at = all.indexOf(document.activeElement);
  if (key === "Home") return all[0];
  if (key === "End") return all.at(-1);
  if (at < 0) return key === "ArrowRight" ? all[0] : all.at(-1);
  return all[Math.min(all.length - 1, Math.max(0, at + (key === "ArrowRight" ? 1 : -1)))];
}

const chart = (target) => target.closest?.("[data-points]");
const handle = (target) => target.closest?.("[data-hand]");

document.addEventListener("pointermove", ({ target, clientX, clientY }) => {
  const box = chart(target);
  if (pointer && pointer.box !== box) show(pointer.box, document.activeElement?.closest?.("[data-points] svg a"));
  pointer = box ? { box, x: clientX, y: clientY } : undefined;
  if (pointer) show(box, nearest(pointer));
});

document.addEventListener("click", ({ target, clientX, clientY }) => {
  const box = target.closest?.("a") ? undefined : chart(target);
  const link = box && nearest({ box, x: clientX, y: clientY });
  if (link) location.assign(link.href.baseVal);
});

document.addEventListener("focusin", ({ target }) => {
  const box = chart(target);
  if (box && target !== box && !handle(target)) show(box, target.closest("a"));
});

document.addEventListener("keydown", (event) => {
  const box = chart(event.target);
  if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
  if (handle(event.target)) return;
  if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  event.preventDefault(); // otherwise the chart would scroll
  step(box, event.key)?.focus();
});

// New points replace the old ones. Show the current point again.
document.addEventListener("htmx:after:swap", () => {
  const focused = document.activeElement?.closest?.("[data-points] svg a");
  if (pointer?.box.isConnected) show(pointer.box, nearest(pointer));
  else if (focused) show(chart(focused), focused);
});

// A chosen axis, critic or row is applied at once. Without scripts, the form has a button.
document.addEventListener("change", ({ target }) => {
  if (target.matches("#chartform [type=radio], #chartform select, #lockform [type=range]")) target.form.requestSubmit();
});
