// The jump box: Ctrl-K opens a dialog that searches runs, steps, pages and commands. The server does the search. This
// script shows the results as text, never as markup.

const NAME = "Search, or jump to a run, a step, a tab, a page or a command";
const HINT = "Text, run, step number, page or command";
let box, field, list, says, asking; // `asking` is the controller of the open request
let offers = []; // the items of the rows
let chosen = 0;

const { made } = window.elements;

function build() {
  box = made("dialog", { class: "jump", "aria-label": "Search or jump" });
  const combobox = { role: "combobox", "aria-label": NAME, "aria-expanded": "true", "aria-controls": "jump-list", "aria-autocomplete": "list" };
  field = made("input", { ...combobox, type: "text", placeholder: HINT, autocomplete: "off", spellcheck: "false" });
  list = made("ul", { id: "jump-list", role: "listbox", "aria-label": "Places" });
  says = made("p", { role: "status" });
  box.append(field, list, says);
  document.body.append(box);
  field.addEventListener("input", ask);
  box.addEventListener("keydown", pressed);
  list.addEventListener("click", ({ target, ctrlKey, metaKey }) => go(offers[[...list.children].indexOf(target.closest("li"))], ctrlKey || metaKey));
  box.addEventListener("click", ({ target }) => target === box && box.close()); // a click outside the box
  box.addEventListener("close", () => asking?.abort());
}

function open() {
  if (!box) build();
  if (box.open) return field.select();
  document.getElementById("keys")?.hidePopover?.();
  field.value = "";
  box.showModal();
  ask();
}

async function ask() {
  asking?.abort();
  const own = (asking = new AbortController());
  const asked = new URLSearchParams({ q: field.value, at: location.pathname + location.search });
  try {
    const answer = await fetch(`/api/jump?${asked}`, { signal: own.signal });
    if (!answer.ok) throw new Error(answer.statusText);
    const { items, runs } = await answer.json();
    if (own === asking) show(items, runs);
  } catch (error) {
    if (error.name !== "AbortError") says.textContent = "board isn't responding.";
  }
}

function show(items, runs) {
  offers = items;
  list.replaceChildren(...items.map((item, at) => made("li", { id: `jump-${at}`, role: "option", class: item.kind })));
  items.forEach((item, at) => list.children[at].append(...[item.kind, item.label, item.note].map((text) => made("span", {}, text))));
  says.textContent = `Results: ${items.length}${field.value ? `. Matching runs: ${runs || "none"}.` : ""}`;
  choose(0);
}

function choose(at) {
  chosen = Math.max(0, Math.min(at, offers.length - 1));
  [...list.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === chosen)));
  field.setAttribute("aria-activedescendant", list.children[chosen]?.id ?? "");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function go(offer, apart) {
  if (!offer) return;
  if (offer.href && apart) return window.open(offer.href, "_blank", "noopener");
  box.close(); // restores the focus, which a command may need
  if (offer.href) return location.assign(offer.href);
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: offer.key.replace("Space", " "), bubbles: true, cancelable: true }));
}

function pressed(event) {
  event.stopPropagation(); // keys typed here must not trigger shortcuts
  const page = Math.max(1, Math.floor(list.clientHeight / (list.firstElementChild?.offsetHeight || 1)) - 1);
  const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
  if (by) choose(chosen + by);
  else if (event.key === "Enter") go(offers[chosen], event.ctrlKey || event.metaKey);
  else if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) box.close();
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault(); // the browser may have its own shortcut
  open();
});

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-jump]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  open();
});
