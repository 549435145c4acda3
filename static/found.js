// Marks the text that was searched for in a transcript, walks through its places in a step, and says which one is shown.
// find.js dispatches `found:mark`, `found:show` with a step, and `found:move` within the step.

const MOST = 2000; // places that are marked
const found = () => document.getElementById("found");
const list = (name) => (found()?.dataset[name] ?? "").split(" ").filter(Boolean).map(Number);
let now; // the step and the number of the place that was moved to, until the user scrolls

/** The places of the text below an element, in order. */
function* places(element) {
  const text = found()?.dataset.text?.toLowerCase();
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

/** The places in step `n`, without those in the line of a part that opens if the part has the text, too. */
function inStep(n) {
  const step = document.getElementById(`t${n}`);
  const all = step ? [...places(step)] : [];
  const line = (range) => range.startContainer.parentElement.closest("summary");
  const opens = new Set();
  for (const range of all) {
    const from = line(range)?.parentElement.parentElement ?? range.startContainer.parentElement;
    for (let part = from.closest("details"); part; part = part.parentElement.closest("details")) opens.add(part);
  }
  return all.filter((range) => !line(range) || !opens.has(line(range).parentElement));
}

/** Says which of all places is the current one. The server counted those of steps that aren't on the page. */
function count() {
  const [output, steps, hits] = [found(), list("steps"), list("hits")];
  if (!output) return;
  output.dataset.words ??= output.textContent;
  const at = steps.indexOf(now?.n);
  const own = at < 0 ? 0 : inStep(now.n).length;
  const before = hits.slice(0, at).reduce((sum, some) => sum + some, now?.k + 1);
  const all = hits.reduce((sum, some) => sum + some, own - hits[at]);
  const of = (count, noun, ending = "s") => `${count} ${noun}${count === 1 ? "" : ending}`;
  const place = hits.length ? `${before} of ${of(all, "match", "es")} in ${of(steps.length, "step")}` : `${now?.k + 1} of ${of(own, "match", "es")} in step ${now?.n}; step ${at + 1} of ${output.dataset.words}`;
  const words = own ? (hits.length ? output.dataset.words.replace(/^.*? steps?(?=,|$)/, place) : place) : output.dataset.words;
  if (output.textContent !== words) output.textContent = words; // screen readers announce a change
}

/** Marks the text in the steps on the page, without changing them. */
function mark() {
  count();
  if (!CSS.highlights) return;
  const marks = new Highlight();
  for (const range of places(document.getElementById("transcript"))) {
    if (marks.size === MOST) break;
    marks.add(range);
  }
  CSS.highlights.set("found", marks);
  const current = [now && inStep(now.n)[now.k]].filter(Boolean);
  CSS.highlights.set("found-now", Object.assign(new Highlight(...current), { priority: 1 }));
}

/** Opens the parts around a match in step `n`, and scrolls it into view. */
function show(n, isLast) {
  const all = inStep(n);
  now = { n, k: isLast ? all.length - 1 : 0 };
  to(all[now.k]);
}

function to(range) {
  mark();
  if (!range) return;
  for (let part = range.startContainer.parentElement.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  const box = range.startContainer.parentElement.closest("pre");
  const place = () => range.getBoundingClientRect();
  if (box && box.scrollHeight > box.clientHeight) box.scrollTop += place().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  const edge = document.getElementById("trbar").getBoundingClientRect().bottom;
  if (place().top < edge || place().bottom > innerHeight) scrollBy({ top: place().top - innerHeight / 2, behavior: "instant" });
}

/** Moves to the next or previous match in the step. Sets `isDone` if it has one, and `step` to where the search continues. */
function move(detail) {
  if (!now) return;
  const k = now.k + (detail.key === "n" ? 1 : -1);
  const range = inStep(now.n)[k];
  [detail.step, detail.isDone, detail.isKnown] = [now.n, Boolean(range), true];
  if (!range) return;
  now.k = k;
  to(range);
}

document.addEventListener("found:mark", ({ detail }) => (detail?.isNew && (now = undefined), mark()));
document.addEventListener("found:show", ({ detail }) => show(detail.step, detail.isLast));
document.addEventListener("found:move", ({ detail }) => move(detail));
for (const hand of ["wheel", "touchmove", "transcript:go"]) document.addEventListener(hand, () => (now = undefined), { passive: true });
