// Handles keyboard shortcuts. Every key clicks or focuses an element of the page. `?` lists all keys.

const find = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const FIELDS = "input:not([type=range], [type=checkbox]), select, textarea, [contenteditable]";
let prefix = ""; // the first key of a pair such as `g r`

/** Moves the focus to the next, previous or last link of a list. */
function inList(key) {
  const links = all("#rows tr th a");
  const at = links.indexOf(document.activeElement?.closest("#rows tr")?.querySelector("th a"));
  const next = key === "G" ? links.length - 1 : key === "j" ? at + 1 : Math.max(0, at - 1);
  focus(links[Math.min(next, links.length - 1)]);
}

function focus(link) {
  link?.focus({ preventScroll: true });
  link?.scrollIntoView({ block: "nearest" });
}

/** Moves to the verdict. Opens or closes it where it's a line. On tabs without the verdict panel, clicks the link in the header. */
function verdict() {
  const line = find("#verdict-line > summary");
  if (line) return line.click(), line.focus();
  const heading = find("#verdict");
  if (!heading) return find("#runhead dd.verdict a")?.click();
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "center" });
}

/** Shows or hides the list of keys, which is loaded at the first use. */
async function help() {
  if (!find("#keys")) await htmx.ajax("GET", "/keys/part", { target: "body", swap: "beforeend" });
  find("#keys")?.togglePopover();
}

/** The element that a key clicks, if the page declares one. */
const twin = (key) => find(`[data-key="${CSS.escape(key)}"]`);

/** Focuses a field without typing the key into it. */
function enter(field, event) {
  event.preventDefault();
  field.focus();
  field.select();
}

function press(key, isHeld) {
  if (twin(key)) twin(key).click();
  else if (key === "?") help();
  else if (key === "t") find("[data-theme-button]")?.click();
  else if (key === "f") find("[data-follow]")?.click();
  else if (key === "v") verdict();
  else if (["j", "k", "J", "K", "n", "N", "y"].includes(key) && find("#transcript")) document.dispatchEvent(new CustomEvent("transcript:key", { detail: key }));
  else if (key === "e") document.dispatchEvent(new CustomEvent("steps:mark", { detail: "mark" }));
  else if (key === "E") document.dispatchEvent(new CustomEvent("steps:mark", { detail: "mark-back" }));
  else if (key === "[") find("a[data-change=prev]")?.click();
  else if (key === "]") find("a[data-change=next]")?.click();
  else if (key === "x" || key === "s") document.dispatchEvent(new CustomEvent(key === "x" ? "runs:mark" : "runs:star", { detail: document.activeElement?.closest("#rows tr:not(.grp)") }));
  else if (key === "c") find("[data-compare]")?.click();
  else if ((key === "j" || key === "k") && find("#stepview, #statetab, #lockstep, #files")) document.dispatchEvent(new CustomEvent("page:walk", { detail: { key, isHeld } }));
  else if (["j", "k", "G"].includes(key)) inList(key);
  else if (key >= "1" && key <= "9") all("nav.tabs a")[key - 1]?.click();
}

function inField(event) {
  if (event.key !== "Escape") return;
  if (event.target.value && event.target.type === "search") event.target.value = "";
  else event.target.blur();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.(FIELDS)) return inField(event);
  const { key } = event;
  const pair = key === " " ? "" : prefix;
  prefix = "";
  if (pair && /\d/.test(key) && twin(":")) {
    enter(twin(":"), event);
    twin(":").value = key;
    return;
  }
  if (pair) return find(`[data-go="${CSS.escape(key)}"]`)?.click();
  if (key === "g") prefix = key;
  else if (key === " ") {
    if (!twin("Space") || event.target.closest?.(":is(button, summary):focus-visible")) return; // the space bar clicks the focused element
    event.preventDefault(); // otherwise the page would scroll
    press("Space");
  } else if (key === "Enter" && twin("Space") && event.target.matches?.("[type=checkbox]")) event.preventDefault(), event.target.click(); // Space plays
  else if (key === "/") find("input[type=search]") ? enter(find("input[type=search]"), event) : find("[data-jump]")?.click();
  else if (twin(key)?.matches(FIELDS)) enter(twin(key), event);
  else press(key, event.repeat);
});

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-keys]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault(); // without scripts, the link leads to a page
  help();
});
