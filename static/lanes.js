// Moves between the blocks of a timeline with the arrow keys, and shows what the current block is in a panel below it.

const box = () => document.getElementById("lanes");
const tip = () => document.getElementById("tltip");
const marks = () => [...box().querySelectorAll("svg a")];
const ofLane = (lane) => marks().filter(({ dataset }) => Number(dataset.lane) === lane);
const left = (mark) => mark.getBoundingClientRect().left;
const markOf = ({ target }) => target.closest?.("#lanes svg a");

/** Moves the focus and the tab stop to a block. */
function reach(mark) {
  if (!mark) return;
  for (const other of marks()) other.tabIndex = other === mark ? 0 : -1;
  mark.focus({ preventScroll: true });
}

/** Describes a block in the panel. Without one, hides the panel. */
function tell(mark) {
  if (!tip()) return;
  tip().hidden = !mark;
  if (!mark) return;
  const [title, ...facts] = mark.dataset.panel.split("\n");
  const make = (name, text) => Object.assign(document.createElement(name), { textContent: text });
  const list = document.createElement("dl");
  for (const fact of facts) list.append(...fact.split("\t").map((text, at) => make(at ? "dd" : "dt", text)));
  tip().replaceChildren(make("b", title), list, make("p", "Enter opens it · ← → next block"));
  const [own, all] = [mark.getBoundingClientRect(), box().getBoundingClientRect()];
  const x = Math.max(own.left, all.left) + Math.min(own.width, 40) / 2 - all.left - tip().offsetWidth / 2;
  tip().style.setProperty("--x", `${Math.max(8, Math.min(all.width - tip().offsetWidth - 8, x))}px`);
  tip().style.setProperty("--y", `${own.bottom - all.top + 8}px`);
}

/** The nearest block in the next lane, or the previous one. */
function beside(mark, step) {
  const lanes = [...new Set(marks().map(({ dataset }) => Number(dataset.lane)))].sort((a, b) => a - b);
  const far = (one) => Math.abs(left(one) - left(mark));
  return ofLane(lanes[lanes.indexOf(Number(mark.dataset.lane)) + step]).sort((a, b) => far(a) - far(b))[0];
}

function press(event) {
  const mark = markOf(event);
  if (!mark || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return tell();
  const all = marks();
  const at = all.indexOf(mark);
  const targets = { ArrowLeft: () => all[at - 1], ArrowRight: () => all[at + 1], Home: () => all[0], End: () => all.at(-1), ArrowUp: () => beside(mark, -1), ArrowDown: () => beside(mark, 1) };
  if (!targets[event.key]) return;
  event.preventDefault();
  reach(targets[event.key]());
}

if (box()) {
  const focused = () => document.activeElement?.closest("#lanes svg a");
  document.addEventListener("focusin", (event) => tell(markOf(event)));
  document.addEventListener("pointerover", (event) => tell(markOf(event) ?? focused()));
  document.addEventListener("keydown", press);
  // After a zoom, the focus is back on the block that had it.
  document.addEventListener("lanes:focus", ({ detail: { n, lane } }) => reach(ofLane(Number(lane)).find(({ dataset }) => dataset.n === n) ?? marks()[0]));
}
