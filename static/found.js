// Marks the text that was searched for in a transcript, and scrolls to it. find.js dispatches `found:mark`, and `found:show`
// with the number of a step.

const MOST = 2000; // places that are marked

/** The places of the text below an element, in order. */
function* places(element) {
  const text = document.getElementById("found")?.dataset.text?.toLowerCase();
  const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node && text; node = nodes.nextNode()) {
    const words = node.data.toLowerCase();
    if (words.length !== node.data.length) continue; // positions would differ
    for (let start = words.indexOf(text); start >= 0; start = words.indexOf(text, start + text.length)) {
      const range = new Range();
      range.setStart(node, start);
      range.setEnd(node, start + text.length);
      yield range;
    }
  }
}

/** Marks the text in the steps on the page, without changing them. */
function mark() {
  if (!CSS.highlights) return;
  const marks = new Highlight();
  for (const range of places(document.getElementById("transcript"))) {
    if (marks.size === MOST) break;
    marks.add(range);
  }
  CSS.highlights.set("found", marks);
}

/** Opens what the first place in step `n` is in, and scrolls its box and the window, so that it's visible. */
function show(n) {
  const step = document.getElementById(`t${n}`);
  const range = step && places(step).next().value;
  if (!range) return;
  for (let part = range.startContainer.parentElement.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  const box = range.startContainer.parentElement.closest("pre");
  const place = () => range.getBoundingClientRect();
  if (box && box.scrollHeight > box.clientHeight) box.scrollTop += place().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  const edge = document.getElementById("trbar").getBoundingClientRect().bottom;
  if (place().top < edge || place().bottom > innerHeight) scrollBy({ top: place().top - innerHeight / 2, behavior: "instant" });
}

document.addEventListener("found:mark", mark);
document.addEventListener("found:show", ({ detail }) => show(detail));
