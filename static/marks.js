// Keeps the marked runs in the address, in the rows, and in the selection tray. A click on the edge of a row or the key
// `x` marks it; with `?marking=1`, the rows have checkboxes too.

const tray = () => document.getElementById("tray");
const names = ["mark", "run"]; // used by this page, and by the form
const given = new URLSearchParams(location.search);
const marks = new Set(names.flatMap((name) => given.getAll(name)));

const titles = new Map(); // of the runs that were on the page
const EDGE = 38; // px at the left of a row in which a click marks it
const keyOf = (row) => decodeURIComponent(new URL(row.querySelector("th a").href).pathname.slice("/runs/".length));
const rows = () => document.querySelectorAll("#rows tr:not(.grp)");

/** Adds the marks to an address of the run table. */
function marked(address) {
  const url = new URL(address, location.href);
  for (const name of names) url.searchParams.delete(name);
  for (const key of marks) url.searchParams.append("mark", key);
  return url;
}

/** Names the marked runs by title. Those with the same title are named by key. */
function name() {
  const names = tray().querySelector("[data-names]");
  for (const one of names.querySelectorAll("[title]")) titles.set(one.title, titles.get(one.title) ?? one.textContent);
  for (const row of rows()) titles.set(keyOf(row), row.querySelector("th a").textContent);
  const known = [...marks].map((key) => titles.get(key) ?? key);
  const words = (key, at) => (known.filter((title) => title === known[at]).length > 1 ? key : known[at]);
  const shown = [...marks].map((key, at) => window.elements.made("span", { title: key }, words(key, at)));
  names.replaceChildren(...shown.flatMap((one, at) => (at ? [", ", one] : [one])));
}

function show() {
  if (!tray()) return;
  for (const row of rows()) {
    const isMarked = marks.has(keyOf(row));
    row.classList.toggle("marked", isMarked);
    if (isMarked) row.ariaSelected = "true";
    else row.removeAttribute("aria-selected");
    const box = row.querySelector("input[name=run]");
    if (box) box.checked = isMarked;
  }
  tray().classList.toggle("none", marks.size === 0);
  tray().querySelector("[data-count]").textContent = `${marks.size} marked`;
  name();
  tray().querySelector("[data-compare]").disabled = marks.size < 2;
}

function changed() {
  history.replaceState(history.state, "", marked(location.href));
  show();
}

function toggle(row) {
  const key = keyOf(row);
  const had = marks.delete(key);
  if (!had) marks.add(key);
  changed();
  const said = document.querySelector("[data-say]");
  if (said) said.textContent = `${had ? "Not marked" : "Marked"}: ${row.querySelector("th a").textContent}. ${marks.size} marked`;
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("#rows input[name=run]")) toggle(target.closest("tr"));
});

document.addEventListener("runs:mark", ({ detail }) => detail && toggle(detail));

document.addEventListener("click", ({ target, clientX }) => {
  const row = target.closest?.("#rows tr:not(.grp)");
  if (row && !target.closest("a, input") && clientX - row.getBoundingClientRect().left < EDGE) toggle(row);
});

document.addEventListener(
  "click",
  (event) => {
    const link = event.target.closest?.("#runs a");
    if (!link) return;
    if (link.matches("[data-clear]")) {
      event.preventDefault();
      marks.clear();
      changed();
    } else if (new URL(link.href).pathname === "/") link.href = marked(link.href); // filters and sort orders keep the marks
  },
  { capture: true },
);

// Forms send the current marks, including those of runs that the table doesn't show at the moment.
document.addEventListener("formdata", ({ target, formData }) => {
  const name = target.id === "cmp" ? "run" : target.matches("#runs :is([role=search], .cols form)") ? "mark" : "";
  if (!name) return;
  formData.delete(name);
  for (const key of marks) formData.append(name, key);
});

document.addEventListener("htmx:after:swap", show);
addEventListener("pageshow", show); // a browser may restore the old state of checkboxes
