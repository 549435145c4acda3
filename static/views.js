// Keeps stars in the browser, and shows a link to the starred runs above the run table. The server counts them.

const STARS = "board-stars"; // keys of runs, the latest last
const MOST = 64; // a term of a query has at most so many values

/** Calls `act` on a store of the browser, which may be full or forbidden. */
function attempt(act) {
  try {
    return act();
  } catch {
    return null;
  }
}
const write = (store, name, value) => attempt(() => store.setItem(name, value));

const find = (selector) => document.querySelector(selector);
const say = (words) => find("[data-say]") && (find("[data-say]").textContent = words);

function stars() {
  const kept = attempt(() => JSON.parse(localStorage.getItem(STARS)));
  return Array.isArray(kept) ? kept.filter((key) => typeof key === "string").slice(-MOST) : [];
}

const quoted = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
const address = (query) => `/?${new URLSearchParams({ q: query })}`;

/** The number of runs that match, or nothing if the server doesn't say. */
async function count(query) {
  const answer = await fetch(`/api/runs?${new URLSearchParams({ q: query, limit: 1 })}`).catch(() => undefined);
  return answer?.ok ? (await answer.json()).matched : undefined;
}

let kept; // the number of starred runs, once it is known

function show() {
  const keys = stars();
  const starred = find("[data-starred]");
  if (starred) {
    starred.hidden = keys.length === 0;
    starred.href = address(`run=${keys.map(quoted).join(",")}`);
    starred.querySelector("b").textContent = kept ?? "";
    starred.toggleAttribute("aria-current", starred.search === location.search && keys.length > 0);
  }
  for (const row of document.querySelectorAll("#rows tr:not(.grp)")) row.classList.toggle("starred", keys.includes(keyOf(row)));
}

const keyOf = (row) => decodeURIComponent(new URL(row.querySelector("th a").href).pathname.slice("/runs/".length));

async function recount() {
  const keys = stars();
  show();
  if (!find("[data-starred]")) return;
  kept = keys.length ? await count(`run=${keys.map(quoted).join(",")}`) : 0;
  show();
}

/** Stars the runs, or takes the stars away if all of them have one. */
function star(keys) {
  const before = stars();
  const had = keys.every((key) => before.includes(key));
  const after = before.filter((key) => !keys.includes(key));
  if (!had) after.push(...keys);
  if (after.length > MOST) return say(`You can star up to ${MOST} runs`);
  write(localStorage, STARS, JSON.stringify(after));
  say(`${had ? "Star removed" : "Starred"}: ${keys.length} run${keys.length === 1 ? "" : "s"}`);
  recount();
}

document.addEventListener("runs:star", ({ detail }) => detail && star([keyOf(detail)]));
document.addEventListener("click", ({ target }) => {
  if (target.closest?.("[data-star]")) star(new URLSearchParams(location.search).getAll("mark"));
});
addEventListener("storage", ({ key }) => key === STARS && recount()); // another tab
document.addEventListener("htmx:after:swap", show);
recount();

window.views = { address, attempt, count, write };
