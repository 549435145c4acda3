// Completes the form that shares a run when it's opened: the step that is shown, and what will be redacted.

const sheet = () => document.querySelector("#share #sheet");

document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.id !== "share" || !target.open || !sheet() || sheet().dataset.asked || sheet().querySelector("table")) return;
    sheet().dataset.asked = "1"; // searching a large run takes a while
    const step = document.getElementById("stepview")?.dataset.n ?? sheet().elements.step?.value ?? "";
    htmx.ajax("GET", `${sheet().dataset.more}?step=${step}`, { source: "#share", target: "#sheet", select: "#sheet", swap: "outerHTML" });
  },
  { capture: true },
);

// An update of a live run brings the form as it was before it was opened. What was found stays.
let found;
document.addEventListener("htmx:after:swap", () => {
  const now = sheet()?.querySelector(".shc");
  if (!now) return;
  if (now.matches(":has(table)")) found = now.cloneNode(true);
  else if (found && document.getElementById("share").open) now.replaceWith(found.cloneNode(true));
});

document.addEventListener("keydown", ({ key, target }) => {
  const open = target.closest?.("#share[open]");
  if (key !== "Escape" || !open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

document.addEventListener("click", ({ target }) => {
  const open = document.querySelector("#share[open]");
  if (open && target.isConnected && !open.contains(target)) open.open = false;
});
