// Handles the controls of the replay page: links, play button, slider, picture and breakpoints. Each becomes a move for
// `replay.js`. Without scripts, the links and the form work by themselves.

const box = () => document.getElementById("replay");
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));
const move = (kind, by) => tell("replay:move", [kind, by]);

function seek(picture, x) {
  const { left, width } = picture.getBoundingClientRect();
  const part = Math.min(Math.max(0, (x - left) / width), 1);
  move("at", Math.round(part * Number(box().dataset.last)));
}

function click(event) {
  const { target } = event;
  if (target.closest("[data-play]")) return tell("replay:toggle");
  const link = target.closest("#replay a");
  if (!link || link.pathname !== location.pathname || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const picture = target.closest("[data-seek]");
  if (picture) return seek(picture, event.clientX);
  const { steps, events } = link.dataset;
  if (steps || events) move(steps ? "steps" : "events", Number(steps ?? events));
  else move(link.closest(".seg") ? "change" : "jump", `${link.pathname}/part${link.search}`);
}

/** Changes the breakpoints without moving. */
function choose(event) {
  const form = event.target.closest("#stops");
  if (!form || event.target.type === "text") return;
  event.preventDefault();
  const query = new URLSearchParams(new FormData(form));
  form.elements.add.value = "";
  // Without focus in the field, the keys of the replay work again.
  form.elements.add.blur();
  move("change", `${location.pathname}/part?${query}`);
}

if (box()) {
  document.addEventListener("click", click);
  document.addEventListener("change", choose);
  document.addEventListener("submit", choose);
  document.addEventListener("input", ({ target }) => target.id === "pos" && move("at", Number(target.value)));
}
