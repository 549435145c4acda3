// Completes the filter of the run table: fields, then values with counts. ↓ opens the list, Tab inserts, Enter filters.
// The server finds the completions. This script shows them as text, never as markup.

const field = () => document.getElementById("q");
const is = (element) => element?.matches?.("#runs #q");
const DELAY = 80; // ms after a key, because the next one makes the answer useless
let list, asking; // the panel, and the controller of the open request
let items = [];
let asked; // the text and the caret that the items are for
let replaces = "", replacesAfter = ""; // the text before and after the caret that a completion replaces
let chosen = 0;

const { made } = window.elements;

function close() {
  asking?.abort();
  list?.remove();
  list = undefined;
  items = [];
  field()?.setAttribute("aria-expanded", "false");
  field()?.removeAttribute("aria-activedescendant");
}

async function ask() {
  asking?.abort();
  const own = (asking = new AbortController());
  await new Promise((done) => setTimeout(done, DELAY));
  if (own !== asking || own.signal.aborted || !field()) return;
  const { value, selectionStart: at } = field();
  const query = new URLSearchParams({ q: value.slice(0, at), rest: value.slice(at) });
  const answer = await fetch(`/api/complete?${query}`, { signal: own.signal }).catch(() => undefined);
  const found = answer?.ok ? await answer.json().catch(() => undefined) : undefined;
  if (own !== asking || document.activeElement !== field()) return;
  asked = { value, at };
  show(found);
}

/** A row: the completion with the typed letters marked, its meaning and its count. */
function row({ text, about, count }, at) {
  const code = made("code");
  const from = replaces ? text.toLowerCase().indexOf(replaces.toLowerCase()) : -1;
  if (from < 0) code.textContent = text;
  else code.append(text.slice(0, from), made("mark", {}, text.slice(from, from + replaces.length)), text.slice(from + replaces.length));
  const option = made("li", { id: `complete-${at}`, role: "option" });
  option.append(code, made("span", {}, about), made("span", {}, count.toLocaleString("en")));
  return option;
}

function show(found) {
  close();
  if (!found?.items.length) return;
  ({ items, replaces, replaces_after: replacesAfter } = found);
  const rows = made("ul", { id: "complete", role: "listbox", "aria-label": found.heading });
  rows.append(...items.map(row));
  const more = found.more ? `${found.more_uncounted ? "Over " : ""}${found.more} more. ` : "";
  list = made("div", { class: "comp" });
  list.append(made("p", { class: "label" }, found.heading), rows, made("p", {}, `${more}↑ ↓ choose · Tab insert · Enter filter · - exclude`));
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // keeps the focus in the field
    const at = [...rows.children].indexOf(event.target.closest("li"));
    if (at >= 0) insert(at);
  });
  field().closest("form").append(list);
  field().setAttribute("aria-expanded", "true");
  choose(0);
}

function choose(at) {
  chosen = (at + items.length) % items.length;
  const rows = [...list.querySelectorAll("li")];
  rows.forEach((option, n) => option.setAttribute("aria-selected", String(n === chosen)));
  rows[chosen].scrollIntoView({ block: "nearest" });
  field().setAttribute("aria-activedescendant", rows[chosen].id);
}

function insert(at) {
  const input = field();
  if (input.value !== asked.value || input.selectionStart !== asked.at) return ask(); // the items are for another text
  const { text } = items[at];
  const end = asked.at + replacesAfter.length;
  const isField = /[:>]$/.test(text);
  // A value ends its term, unless a list continues. A field waits for its value before the next term.
  const gap = (isField ? /^(\s|$)/ : /^[\s,]/).test(input.value.slice(end)) ? "" : " ";
  input.setRangeText(text + gap, asked.at - replaces.length, end, "end");
  if (isField && gap) input.setSelectionRange(input.selectionEnd - 1, input.selectionEnd - 1);
  ask();
}

document.addEventListener("input", ({ target }) => is(target) && (target.value ? ask() : close()));
document.addEventListener("keydown", (event) => {
  if (!is(event.target) || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && (list || step > 0)) list ? choose(chosen + step) : ask();
  else if (list && event.key === "Tab" && !event.shiftKey) insert(chosen);
  else if (list && event.key === "Escape") close();
  else return;
  event.preventDefault();
}, { capture: true });
document.addEventListener("focusout", ({ target }) => is(target) && close());
