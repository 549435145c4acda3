// Finds the runs that an update of the page shows as ended, and dispatches `runs:ended` with them. While the tab is
// hidden, its title counts them.

const MOST = 8; // runs that left the table in one update and are asked about
const { body } = document;
const growing = new Map(); // id of a row -> its run, which the page showed as growing
const head = () => document.getElementById("runhead");
const isOver = () => "end" in head().dataset;
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
  const { liveness, verdict } = answer?.ok ? await answer.json() : {};
  return ["finished", "died", "unknown"].includes(liveness) ? { ...run, words: verdict } : undefined;
}

async function look() {
  const ended = [];
  const gone = new Map(growing);
  for (const row of document.querySelectorAll("#rows tr:not(.grp)")) {
    gone.delete(row.id);
    if ("growing" in row.dataset) growing.set(row.id, ofRow(row));
    else if (!("unread" in row.dataset) && growing.delete(row.id)) ended.push(ofRow(row));
  }
  for (const id of gone.keys()) growing.delete(id);
  if (head()) {
    if (isGrowing && isOver()) ended.push(ofHead());
    isGrowing = !isOver();
  }
  if ("asked" in body.dataset) ended.push(...(await Promise.all([...gone.values()].slice(0, MOST).map(ifEnded))).filter(Boolean));
  if (ended.length === 0) return;
  count += ended.length;
  show();
  document.dispatchEvent(new CustomEvent("runs:ended", { detail: ended }));
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
