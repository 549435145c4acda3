// Receives a stream of revision numbers. Dispatches `board:rev` for a new revision, and `board:state` when the state of
// the stream changes. It handles no content: `#pulse` listens to `board:rev`, and htmx loads and swaps the changes.

const body = document.body;
const isAway = () => document.hidden && !("tells" in body.dataset); // tell.js marks tabs that stay connected

let stream; // the open EventSource
let retry; // the timer of the next attempt
let tries = 0; // since the stream was last open
let down = 0; // when the stream was lost, in ms; 0 while it is open
let paused = false;
let ended = "ended" in body.dataset;
let newest = Number(body.dataset.rev); // the newest known revision
let asked = newest; // the revision the last request was made for
let busy = false; // whether that request is in progress

function disconnect() {
  stream?.close();
  clearTimeout(retry);
}

function connect() {
  disconnect();
  if (paused || isAway()) return;
  down ||= Date.now();
  stream = new EventSource(body.dataset.stream);
  stream.addEventListener("open", () => {
    tries = down = 0;
    tell();
  });
  stream.addEventListener("rev", (event) => hear(JSON.parse(event.data)));
  // The browser retries too, but not after every kind of failure, and not at this pace.
  for (const loss of ["error", "bye"]) stream.addEventListener(loss, lose);
}

function lose() {
  disconnect();
  down ||= Date.now();
  tries += 1;
  retry = setTimeout(connect, Math.min(1000 * tries, 3000));
  tell();
}

function hear({ rev, boot, status }) {
  // After a restart the server counts from the beginning, so the cursors and revisions of this page are invalid.
  if (boot && body.dataset.boot && boot !== body.dataset.boot) return location.reload();
  if (status) ended = ["finished", "died", "unknown"].includes(status);
  newest = rev;
  tell();
  refresh();
}

function refresh() {
  // No requests while the stream is down or paused. Its next message calls this function again.
  if (busy || paused || down || newest === Number(body.dataset.rev) || !document.getElementById("pulse")) return;
  asked = newest;
  body.dispatchEvent(new CustomEvent("board:rev", { detail: { rev: asked } }));
  if (!busy) setTimeout(refresh, 5); // htmx doesn't listen yet to a pulse that it has just swapped in
}

const ofPulse = (event) => event.detail.ctx?.sourceElement?.id === "pulse";

document.addEventListener("htmx:before:request", (event) => {
  if (ofPulse(event)) busy = true;
});
document.addEventListener("htmx:finally:request", (event) => {
  if (!ofPulse(event)) return;
  busy = false;
  const { status, response } = event.detail.ctx;
  if (status !== "swapped" || response.status >= 400) return setTimeout(refresh, 1000);
  body.dataset.rev = response.status === 204 ? asked : document.getElementById("pulse").dataset.rev;
  if (newest !== asked) refresh();
});

function tell() {
  body.dispatchEvent(new CustomEvent("board:state", { detail: { paused, ended, down, tries } }));
}

if (body.dataset.stream) {
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-retry]")) connect();
    if (!target.closest("[data-pause]")) return;
    paused = !paused;
    down = 0;
    if (paused) disconnect();
    else connect(); // the first message delivers missed changes
    tell();
  });
  // A hidden tab closes its connection, because a browser has only about six for all tabs together.
  const settle = () => {
    if (isAway()) disconnect(), (down = 0);
    else if (!stream || stream.readyState === EventSource.CLOSED) connect();
    tell();
  };
  document.addEventListener("visibilitychange", settle);
  body.addEventListener("board:tells", settle);
  addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
}
