// Completes the form that shares a run when it's opened: the step that is shown, and what will be redacted.

const sheet = () => document.querySelector("#share #sheet");
let at; // the step in view in the transcript
document.addEventListener("transcript:at", ({ detail }) => (at = detail.at));

/** Copies the chosen part as Markdown, redacted as the form says. */
async function copy(button) {
  const fields = new FormData(button.form);
  fields.set("as", "markdown");
  const answer = await fetch(`${button.form.action}?${new URLSearchParams(fields)}`).catch(() => undefined);
  const text = answer?.ok ? await answer.text() : undefined;
  document.dispatchEvent(new CustomEvent("copy:put", { detail: { button, text } }));
}

document.addEventListener(
  "toggle",
  ({ target }) => {
    const form = sheet();
    if (target.id !== "share" || !target.open || !form || form.dataset.asked || form.querySelector("table")) return;
    form.dataset.asked = "1"; // searching a large run takes a while
    const step = document.getElementById("stepview")?.dataset.n ?? at ?? form.elements.step?.value ?? "";
    const answer = htmx.ajax("GET", `${form.dataset.more}?step=${step}`, { source: "#share", target: "#sheet", select: "#sheet", swap: "outerHTML" });
    answer.finally(() => delete form.dataset.asked); // after a failure, opening it again asks again
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
  const button = target.closest?.("[data-copy-form]");
  if (button) return copy(button);
  const open = document.querySelector("#share[open]");
  if (open && target.isConnected && !open.contains(target)) open.open = false;
});
