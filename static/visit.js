// Marks the runs that were added or ended since the last visit, and shows above the run table how many there are, with a
// link to what changed. The browser keeps the time of the visit, and the server counts.

const SEEN = "board-seen"; // when a page of this board was last looked at, RFC 3339
const GROWS = "liveness:running,quiet,stalled,waiting";
const { address, attempt, count, write } = window.views;

// A visit lasts as long as its tab.
const since = attempt(() => sessionStorage.getItem(SEEN) ?? localStorage.getItem(SEEN)) ?? "";
write(sessionStorage, SEEN, since);
const seconds = Date.parse(since) / 1000; // NaN on the first visit, which is before no time
const seen = () => write(localStorage, SEEN, `${new Date().toISOString().slice(0, 19)}Z`);
addEventListener("pagehide", seen);
document.addEventListener("visibilitychange", () => document.hidden && seen());

function isNew(row) {
  const { growing, unread } = row.dataset;
  const updated = row.querySelector(".c-upd:is(:not([data-head]), [data-head=updated])")?.dataset.age;
  return unread === undefined && Number(growing ?? updated) > seconds;
}

/** The time of the last visit: `09:40`, or with its day if that isn't today. */
function when() {
  const time = new Date(since);
  const day = time.toDateString() === new Date().toDateString() ? "" : `${time.getDate()} ${time.toDateString().slice(4, 7)} `;
  return day + time.toTimeString().slice(0, 5);
}

let fresh; // the number of these runs, once it is known

function show() {
  for (const row of document.querySelectorAll("#rows tr:not(.grp)")) {
    const mark = row.querySelector(".fresh");
    if (!isNew(row)) mark?.remove();
    else if (!mark) row.querySelector("th a").after(window.elements.made("i", { class: "bd fresh", title: `Added or ended since ${when()}` }, "new"));
  }
  const link = document.querySelector("a[data-since]");
  if (!link || !fresh) return;
  link.hidden = false;
  link.href = address(`updated>${since}`);
  link.title = "Added or ended since your last visit. The link also shows runs that are still growing.";
  link.replaceChildren(window.elements.made("b", {}, fresh), ` new since ${when()}`);
}

async function recount() {
  show();
  if (Number.isNaN(seconds) || !document.querySelector("a[data-since]")) return;
  const counts = await Promise.all([count(`updated>${since} -${GROWS}`), count(`started>${since} ${GROWS}`)]);
  fresh = counts.includes(undefined) ? undefined : counts[0] + counts[1];
  show();
}

document.addEventListener("htmx:after:swap", show);
recount();
