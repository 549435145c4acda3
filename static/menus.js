// Builds the menus of the run table when they are opened, which keeps the page small. Without scripts, the browser shows
// the same markup, which is in <noscript>. Updates of the page keep an open menu as it is.

const MANY = 12; // longer menus have a field
const open = new Map(); // id of a menu -> its panel
let focused; // in a panel, before an update takes the panel away

const ANY = ":is(details.pick, details.menu)[open]";
const menus = () => document.querySelectorAll("details.pick");

/** Returns the panel in a <noscript>: text on a page that the browser loaded, elements in one that an update brought. */
const markup = (noscript) =>
  noscript.firstElementChild?.cloneNode(true) ?? new DOMParser().parseFromString(noscript.textContent, "text/html").body.firstElementChild;

/** Adds a field to a long menu that hides the entries without the typed text, and the headings without entries. */
function filter(panel) {
  if (panel.querySelector("input")) return;
  const field = document.createElement("input");
  Object.assign(field, { type: "text", placeholder: "Type to filter", ariaLabel: "Filter this menu", autocomplete: "off", spellcheck: false });
  const none = Object.assign(document.createElement("p"), { className: "label", role: "status" });
  field.addEventListener("input", () => {
    let heading, shown = 0; // the entries shown below the last heading, and in all
    for (const item of panel.querySelectorAll(":scope > .label:not([role]), :scope > .chip")) {
      if (item.matches(".label")) (heading = item).hidden = true;
      else {
        item.hidden = !item.textContent.toLowerCase().includes(field.value.trim().toLowerCase());
        if (!item.hidden) (shown += 1), heading && (heading.hidden = false);
      }
    }
    none.textContent = shown ? "" : "No match";
  });
  panel.prepend(field, none);
}

function build(menu) {
  if (menu.querySelector(":scope > .panel")) return;
  const panel = open.get(menu.id) ?? markup(menu.querySelector("noscript"));
  open.set(menu.id, panel);
  if (panel.matches(".chips") && panel.querySelectorAll(".chip").length > MANY) filter(panel);
  menu.append(panel);
}

document.addEventListener(
  "toggle",
  ({ target }) => {
    if (!target.matches?.("details.pick")) return;
    if (target.open) {
      build(target);
      return target.querySelector(".panel > input")?.focus();
    }
    open.delete(target.id);
    target.querySelector(":scope > .panel")?.remove();
  },
  { capture: true },
);

document.addEventListener("htmx:before:swap", () => {
  focused = document.activeElement?.closest("details.pick > .panel") ? document.activeElement : undefined;
});
document.addEventListener("htmx:after:swap", () => {
  for (const menu of menus()) if (menu.open) build(menu);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
});

document.addEventListener("click", ({ target }) => {
  for (const menu of document.querySelectorAll(ANY)) if (!menu.contains(target)) menu.open = false;
});
/** Moves through the entries with the arrow keys. Enter in the field opens the first one. */
function pressed(event, menu) {
  const items = [...menu.querySelectorAll(":scope > .panel > .chip")].filter((item) => !item.hidden);
  if (!items.length) return;
  const [at, field] = [items.indexOf(event.target), menu.querySelector(".panel > input")];
  if (event.key === "ArrowDown") items[Math.min(at + 1, items.length - 1)]?.focus();
  else if (event.key === "ArrowUp") (items[at - 1] ?? field ?? items[0])?.focus();
  else if (event.key === "Enter" && event.target === field) items[0]?.click();
  else return;
  event.preventDefault();
}

document.addEventListener("keydown", (event) => {
  const menu = event.target.closest?.(ANY);
  if (!menu) return;
  if (event.key !== "Escape") return pressed(event, menu);
  menu.open = false;
  menu.querySelector("summary").focus();
});
