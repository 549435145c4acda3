// Notifies the user when a run ends, if they asked for it: with a notification, and in the title of a hidden tab. The page
// gets the end with its usual update. The browser stores which pages notify.

const ASKED = "board-tell"; // paths of these pages, the latest last
const MOST = 64;
const SLOTS = 3; // tabs that stay connected while they are hidden; all tabs share about six connections
const { body } = document;
const { made } = window.elements;
const { attempt, write } = window.views;

const here = location.pathname;
const isList = here === "/";
const label = isList ? "Notify me when a run ends" : "Notify me when it ends";
const button = made("button", { class: "btn quiet", type: "button", title: label });
const words = made("span", { class: "told", role: "status" }); // why it can't, next to the button
const box = made("span", { class: "tell" });
button.append(made("span", {}, label));
box.append(button, words);

const asked = () => [attempt(() => JSON.parse(localStorage.getItem(ASKED)))].flat().filter((path) => typeof path === "string");
const isOn = () => asked().includes(here) && window.Notification?.permission === "granted";

function set(on) {
  const others = asked().filter((path) => path !== here);
  write(localStorage, ASKED, JSON.stringify((on ? [...others, here] : others).slice(-MOST)));
  show();
}

let free; // releases the slot of this tab
let waits = false;

/** Takes a slot while this page tells, so that it stays connected while it is hidden. */
async function keep() {
  if (isOn() && !free && !waits) {
    waits = true;
    const take = (next) => (slot) => (next(), slot && new Promise((done) => (free = done)));
    for (let n = 0; n < SLOTS && !free; n += 1) await new Promise((next) => navigator.locks.request(`${ASKED}-${n}`, { ifAvailable: true }, take(next)));
    waits = false;
    if (!free) words.textContent = `${SLOTS} other tabs already wait for runs. This one notifies you only while it's visible.`;
  }
  if (!isOn() && free) free = free();
  const had = "tells" in body.dataset;
  // live.js connects a hidden tab that tells, and disconnects one that no longer does.
  if (body.toggleAttribute("data-tells", Boolean(free)) !== had) body.dispatchEvent(new CustomEvent("board:tells"));
}

function show() {
  button.setAttribute("aria-pressed", String(isOn()));
  body.toggleAttribute("data-asked", isOn());
  keep();
}

/** Asks for the permission. Returns why there can't be notifications. */
async function ask() {
  if (!window.isSecureContext) return "Browsers allow notifications only on https:// and on this machine (127.0.0.1).";
  if (!window.Notification) return "This browser doesn't support notifications.";
  const answer = await Notification.requestPermission();
  if (answer === "denied") return "Notifications are blocked. Allow them for this address in your browser settings.";
  return answer === "granted" ? "" : "The browser wasn't allowed to show notifications.";
}

button.addEventListener("click", async () => {
  const on = isOn();
  words.textContent = on ? "" : await ask();
  set(!on && !words.textContent);
  if (!on && !words.textContent && !isOn()) words.textContent = "This browser blocks storage for this page.";
});
document.addEventListener("click", ({ target }) => box.contains(target) || (words.textContent = ""));
addEventListener("storage", ({ key }) => key === ASKED && show()); // another tab

document.addEventListener("runs:ended", ({ detail: runs }) => {
  if (!isOn()) return;
  const [run] = runs, one = runs.length === 1;
  const said = one ? run.words : runs.slice(0, 3).map(({ title }) => title).join("\n");
  if (!isList) set(false); // this page has told what it can
  // The same end in two tabs has the same tag, so the browser shows it once.
  const options = { body: said, tag: runs.map(({ path }) => path).join(" ") };
  const note = attempt(() => new Notification(one ? run.title : `${runs.length} runs ended`, options));
  if (!note) return (words.textContent = "This browser can't show notifications from web pages.");
  note.onclick = () => {
    focus();
    note.close();
    if (one && run.path !== here) location.assign(run.path);
  };
});

// A run that has ended needs no button, unless it continues.
body.addEventListener("board:state", ({ detail }) => {
  if (!isList && !/^\/runs\/[^/]+$/.test(here)) return; // tabs of a run have the same path
  if (detail.ended) box.remove();
  else if (!box.isConnected) document.querySelector("[data-pause]").after(box);
});
if (!isList && "ended" in body.dataset) set(false); // it ended while no tab showed it
else show();
