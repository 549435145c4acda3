// Searches a transcript while the user types, and moves between the steps that contain the text. found.js marks it.

const DELAY = 250; // ms between the last key and the search
const LEAST = 2; // characters that are searched for while typing; Enter searches for fewer
const found = () => document.getElementById("found");
const field = () => document.querySelector(".bar2 .find input[name=find]");
const hits = () => (found()?.dataset.steps ?? "").split(" ").filter(Boolean).map(Number);
let [at, held] = [0]; // the step at the top of the window, and the steps on the page
let goal; // the step to show the text in, once it's on the page, and whether at its last place
let asking; // the controller of the open request
let [shown, asked, timer] = [field()?.value, 0, 0]; // the text that was searched for, the number of the search, and its delay

const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

function go(step, isLast) {
  goal = { step, isLast };
  tell("transcript:go", step);
}

/** Moves to the next or previous place of the text, in the step or in another one. Wraps around at the ends. */
function move(key) {
  const [steps, detail] = [hits(), { key, step: at }];
  tell("found:move", detail);
  if (detail.isDone) return;
  if (!detail.isKnown && key === "n" && steps.includes(at)) return go(at); // the user has moved to this step
  const next = key === "n" ? (steps.find((step) => step > detail.step) ?? steps[0]) : (steps.findLast((step) => step < detail.step) ?? steps.at(-1));
  if (next !== undefined) go(next, key !== "n");
}

/** Searches for the text in the field, and moves to the next step that contains it, starting with the current one. */
async function search() {
  clearTimeout(timer);
  asking?.abort();
  const [text, own] = [field().value, ++asked];
  if (text === shown) return;
  const url = `${location.pathname.replace(/\/$/, "")}/transcript/found?${new URLSearchParams({ find: text, step: at })}`;
  asking = new AbortController();
  const answer = await fetch(url, { signal: asking.signal }).catch(() => undefined);
  const words = await answer?.text().catch(() => undefined);
  if (words === undefined || own !== asked) return;
  if (!answer.ok) return document.getElementById("finds").replaceChildren(window.elements.made("output", {}, "board is busy"));
  shown = text;
  document.getElementById("finds").replaceWith(new DOMParser().parseFromString(words, "text/html").getElementById("finds"));
  const address = new URL(location);
  if (text) address.searchParams.set("find", text);
  else address.searchParams.delete("find");
  history.replaceState(history.state, "", address);
  await new Promise((done) => tell("transcript:reload", done));
  tell("found:mark", { isNew: true });
  const next = hits().find((step) => step >= at) ?? hits()[0];
  if (next !== undefined) go(next);
}

/** Clears the text with Escape, unless the focus is in a field or the key closes something. */
function clear({ key, target }) {
  const isUsed = target.matches?.("input, select, textarea") || document.querySelector(":is(details.pick, details.menu, details.share)[open], dialog[open], :popover-open");
  if (key === "Escape" && shown && !isUsed) (field().value = ""), search();
}

function plan() {
  clearTimeout(timer);
  if (!field().value || field().value.length >= LEAST) timer = setTimeout(search, DELAY);
}

if (field()) {
  document.addEventListener("transcript:at", ({ detail }) => {
    const isOther = held !== detail.held;
    [at, held] = [detail.at, detail.held];
    if (isOther) tell("found:mark");
    if (at !== goal?.step) return;
    const next = goal;
    goal = undefined;
    tell("found:show", next);
  });
  document.addEventListener("transcript:key", ({ detail }) => ["n", "N"].includes(detail) && move(detail));
  document.addEventListener("keydown", clear, { capture: true }); // before others close what is open
  document.addEventListener("input", ({ target }) => target === field() && plan());
  document.addEventListener("keydown", (event) => {
    if (event.target !== field()) return;
    if (event.key === "Escape") return plan(); // keys.js clears the field
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    field().blur(); // the step gets the focus, so that keys move on from it
    if (field().value !== shown) search();
    else if (event.shiftKey) move("N");
    else if (hits().includes(at)) go(at);
    else move("n");
  });
  document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    // New steps show where they contain the text.
    if (ctx.sourceElement?.id === "pulse") ctx.request.body.set("find", found()?.dataset.text ?? "");
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-hit]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    move(link.dataset.hit);
  });
}
