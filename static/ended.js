// Finds the runs that an update of the page shows as ended, and dispatches `runs:ended` with them. While the tab is
// hidden, its title counts them.

const MOST = 8; // runs that left the table in one update and are asked about
const { body } = document;
const SETTLE = 1000; // ms; a run writes its end into several files, and is reported once they agree
const growing = new Map(); // id of a row -> its run, which the page showed as growing
const head = () => document.getElementById("runhead");
const isOver = () => "end" in head().dataset;
const ended = new Map(); // the same of runs that aren't reported yet
let timer;
let isGrowing = Boolean(head()) && !isOver();

const ofHead = () => ({ title: head().querySelector("h1").textContent, words: head().dataset.end, path: location.pathname });
const ofRow = (row) => {
  const link = row.querySelector("th a");
  // The outcome is the first text of its cell, before issues and notes.
  const words = row.querySelector(".c-v.o")?.firstChild?.textContent.trim() || "Ended";
  return { title: link.textContent, words, path: new URL(link.href).pathname };
};

/** Returns the run if it has ended. It may have left the table because the filter no longer matches it. */
async function ifEnded(run) {
  const answer = await fetch(`/api${run.path}`).catch(() => undefined);
  const { liveness, verdict } = answer?.ok ? await answer.json().catch(() => ({})) : {};
  return ["finished", "died", "unknown"].includes(liveness) ? { ...run, words: verdict } : undefined;
}

function look() {
  const gone = new Map(growing);
  for (const row of document.querySelectorAll("#rows tr:not(.grp)")) {
    gone.delete(row.id);
    if ("growing" in row.dataset) growing.set(row.id, ofRow(row));
    else if (!("unread" in row.dataset) && growing.delete(row.id)) ended.set(row.id, ofRow(row));
  }
  for (const id of gone.keys()) growing.delete(id);
  if ("asked" in body.dataset) for (const [id, run] of [...gone].slice(0, MOST)) ended.set(id, run);
  if (head()) {
    if (isGrowing && isOver()) ended.set("runhead", ofHead());
    isGrowing = !isOver();
  }
  if (ended.size) timer ??= setTimeout(report, SETTLE);
}

/** Returns the run as the page shows it by now, if it has ended. */
function newest([id, run]) {
  if (id === "runhead") return isOver() ? ofHead() : undefined;
  const row = document.getElementById(id);
  if (!row) return ifEnded(run);
  return "growing" in row.dataset ? undefined : ofRow(row);
}

async function report() {
  const found = [...ended];
  ended.clear();
  timer = undefined;
  const runs = (await Promise.all(found.map(newest))).filter(Boolean);
  if (runs.length === 0) return;
  count += runs.length;
  show();
  document.dispatchEvent(new CustomEvent("runs:ended", { detail: runs }));
}

let count = 0; // of the runs that ended while the tab was hidden
let plain = document.title; // without the mark
let shown = plain;

function show() {
  if (document.title !== shown) plain = document.title; // an update has set it
  if (!document.hidden) count = 0;
  document.title = count ? `● ${head() ? "Ended" : `${count} ended`} · ${plain}` : plain;
  shown = document.title;
}

document.addEventListener("visibilitychange", show);
document.addEventListener("htmx:finally:swap", () => {
  show(); // the update has taken the mark away
  look();
});
look();
