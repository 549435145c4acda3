// Announces the number of new items to screen readers, and removes the blue edge of items that the user has looked at.

const QUIET = 5000; // ms between two announcements
let said = 0; // time of the last announcement
let timer;
let counts = {}; // noun -> number, not announced yet
let sentence = "";

function say() {
  const words = Object.entries(counts).map(([noun, n]) => `${n} new ${noun}${n === 1 ? "" : "s"}`);
  document.querySelector("[data-say]").textContent = [...words, sentence].filter(Boolean).join(". ");
  said = Date.now();
  counts = {};
  sentence = "";
  timer = undefined;
}

document.addEventListener("htmx:after:swap", (event) => {
  const { sourceElement, response } = event.detail.ctx;
  if (sourceElement?.id !== "pulse" || response?.status !== 200) return;
  const { count, noun, sayNow } = sourceElement.dataset;
  if (Number(count)) counts[noun] = (counts[noun] ?? 0) + Number(count);
  if (sayNow) sentence = sayNow;
  if (Number(count) || sayNow) timer ??= setTimeout(say, Math.max(0, said + QUIET - Date.now()));
});

for (const look of ["pointerover", "focusin"]) {
  document.addEventListener(look, ({ target }) => target.closest(".isnew")?.classList.remove("isnew"));
}
