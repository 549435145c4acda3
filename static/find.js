// Marks the text that a transcript was searched for, and moves between the steps that contain it.

const found = () => document.getElementById("found");
let at = -1; // the step at the top of the window

/** Marks the text in the steps on the page, without changing them. */
function paint() {
  if (!CSS.highlights) return;
  const text = found().dataset.text.toLowerCase();
  const ranges = [];
  const nodes = document.createTreeWalker(document.getElementById("transcript"), NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node && text; node = nodes.nextNode()) {
    const words = node.data.toLowerCase();
    if (words.length !== node.data.length) continue; // positions would differ
    for (let start = words.indexOf(text); start >= 0; start = words.indexOf(text, start + text.length)) {
      const range = new Range();
      range.setStart(node, start);
      range.setEnd(node, start + text.length);
      ranges.push(range);
      for (let part = node.parentElement.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

/** Moves to the next or previous step with the text. Wraps around at the ends. */
function move(key) {
  const steps = found().dataset.steps.split(" ").filter(Boolean).map(Number);
  const next = key === "n" ? (steps.find((step) => step > at) ?? steps[0]) : (steps.findLast((step) => step < at) ?? steps.at(-1));
  if (next !== undefined) document.dispatchEvent(new CustomEvent("transcript:go", { detail: next }));
}

if (found()) {
  let held;
  document.addEventListener("transcript:at", ({ detail }) => {
    at = detail.at;
    if (held === detail.held) return;
    held = detail.held;
    paint();
  });
  document.addEventListener("transcript:key", ({ detail }) => ["n", "N"].includes(detail) && move(detail));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-hit]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    move(link.dataset.hit);
  });
}
