// Marks the text that a transcript is searched for, and brings it into view. find.js says when: `found:mark`, and
// `found:show` with the number of a step.

let ranges = []; // where the text is on the page

/** Marks the text in the steps on the page, without changing them. */
function mark() {
  ranges = [];
  const text = document.getElementById("found")?.dataset.text.toLowerCase();
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
  CSS.highlights?.set("found", new Highlight(...ranges));
}

/** Scrolls a box with the text, and the window, so that the first place in step `n` is visible. */
function show(n) {
  const step = document.getElementById(`t${n}`);
  const range = ranges.find((range) => step?.contains(range.startContainer));
  if (!range) return;
  const box = range.startContainer.parentElement.closest("pre");
  const place = () => range.getBoundingClientRect();
  if (box && box.scrollHeight > box.clientHeight) box.scrollTop += place().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  const edge = document.getElementById("trbar").getBoundingClientRect().bottom;
  if (place().top < edge || place().bottom > innerHeight) scrollBy({ top: place().top - innerHeight / 2, behavior: "instant" });
}

document.addEventListener("found:mark", mark);
document.addEventListener("found:show", ({ detail }) => show(detail));
