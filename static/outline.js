// The outline of a transcript: marks the prompt of the step in view, and moves by prompt and by step. Also opens the
// calls of a step, all thoughts or all results, and counts the new steps of a live run.

const outline = () => document.getElementById("outline");
const links = () => [...document.querySelectorAll("#outline a[data-step]")];
const pill = () => document.getElementById("trpill");
let place = { at: 0, total: 0, isAtEnd: true };
let seen; // the number of steps that the user has seen

/** Moves to a step. It's the current one at once, so that the next key moves on from it. */
const go = (step) => ((place = step === "end" ? place : { ...place, at: step }), document.dispatchEvent(new CustomEvent("transcript:go", { detail: step })));

/** Marks the prompt before the step in view. */
function mark() {
  const all = links();
  const link = all.findLast((one) => Number(one.dataset.step) <= place.at) ?? all[0];
  for (const one of all) if (one !== link) one.removeAttribute("aria-current");
  if (!link) return;
  link.setAttribute("aria-current", "true");
  const [list, row] = [outline().getBoundingClientRect(), link.getBoundingClientRect()];
  if (row.top < list.top + 36 || row.bottom > list.bottom) outline().scrollTop += row.top - list.top - list.height / 3;
}

/** Moves by prompts with `J` and `K`, or by steps with `j` and `k`. */
function move(key) {
  const step = place.at + (key === "j" ? 1 : -1);
  if (key === "y") {
    document.querySelector(`#t${place.at} .no[href]`)?.focus({ preventScroll: true }); // shows the button, which tells the outcome
    return document.querySelector(`#t${place.at} [data-copy-link]`)?.click();
  }
  if (key === "j" || key === "k") return step >= 0 && step < place.total && go(step);
  const starts = links().map((link) => Number(link.dataset.step));
  const start = key === "J" ? starts.find((start) => start > place.at) : starts.findLast((start) => start < place.at);
  if (start !== undefined) go(start);
}

/** Moves to the next step with an error or another mark, or to the one before. */
async function toMark(way) {
  const answer = await fetch(`${location.pathname.replace(/\/$/, "")}/steps/${place.at}/part?to=${way}`).catch(() => undefined);
  const page = new DOMParser().parseFromString(answer?.ok ? await answer.text() : "", "text/html");
  const step = page.getElementById("stepview")?.dataset.n;
  if (step !== undefined) go(Number(step));
}

/** Opens the parts of a kind whose check box is on. Closes those of the `changed` one if it's off. */
function openAll(changed) {
  for (const field of document.querySelectorAll(".bar2 input[data-open]")) {
    if (!field.checked && field !== changed) continue;
    for (const part of document.querySelectorAll(`#transcript .${field.dataset.open}`)) part.open = field.checked;
  }
}

/** Opens the calls of a step, or closes them if all are open. */
function openCalls(step) {
  const calls = [...step.querySelectorAll("details.tool")];
  const open = calls.some((call) => !call.open);
  for (const call of calls) call.open = open;
}

/** Copies a text that the server has. */
async function copyFrom(button) {
  const answer = await fetch(button.dataset.copyFrom).catch(() => undefined);
  const text = answer?.ok ? await answer.text() : undefined;
  document.dispatchEvent(new CustomEvent("copy:put", { detail: { button, text } }));
}

/** Counts the steps that came since the end was last in view. */
function count() {
  if (seen === undefined || place.isAtEnd) seen = place.total;
  if (!pill()) return;
  const unseen = place.total - seen;
  pill().hidden = unseen <= 0;
  pill().textContent = `↓ ${unseen} new step${unseen === 1 ? "" : "s"}`;
}

if (outline()) {
  document.addEventListener("transcript:at", ({ detail }) => {
    const isOther = detail.held !== place.held;
    place = { ...detail, at: detail.goal ?? detail.at };
    mark();
    if (isOther) openAll(); // other steps than before are on the page
    count();
  });
  document.addEventListener("steps:mark", ({ detail }) => toMark(detail));
  document.addEventListener("transcript:key", ({ detail }) => "nN".includes(detail) || move(detail)); // find.js moves by `n`
  document.addEventListener("change", ({ target }) => target.matches?.(".bar2 input[data-open]") && openAll(target));
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#trpill")) return go("end");
    const button = event.target.closest?.("[data-copy-from]");
    if (button) return copyFrom(button);
    const link = event.target.closest?.("#outline a[data-step], #transcript .ts .no[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const step = link.closest(".ts");
    event.preventDefault();
    // Enter has no position. It opens the calls of the step that the keys moved to.
    if (step && event.detail === 0) openCalls(step);
    else go(Number((step ?? link).dataset[step ? "n" : "step"]));
  });
}
