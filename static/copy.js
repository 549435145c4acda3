// What can be copied? A text, a call, and what a button says; values are in values.js. The button of a text comes when the
// pointer or the focus does, so that a page of a thousand texts has no thousand buttons.

const TEXTS = "main pre, main .pair .call";
const said = document.createElement("p");
said.className = "vh";
said.setAttribute("role", "status");
document.body.append(said); // a live region has to be there before it says something

/** The text of an element as it was before it was set: a diff with its signs, a folded text with its rest. */
function textOf(element) {
  if (element.matches(".lines-of")) {
    const sign = { INS: "+", DEL: "-" };
    const lines = [...element.children].map((line) => (line.matches(".at") ? "" : (sign[line.tagName] ?? " ")) + line.textContent);
    return lines.map((line) => (line.endsWith("\n") ? line : `${line}\n`)).join("");
  }
  const rest = after(element);
  if (!rest?.matches("details.rest")) return element.textContent;
  const joint = rest.querySelector("summary").textContent.endsWith("the line goes on") ? "" : "\n";
  return element.textContent + joint + rest.querySelector("pre").textContent;
}

/** What follows a text, but for its button. */
function after(element) {
  const next = element.nextElementSibling;
  return next?.matches(".copy") ? next.nextElementSibling : next;
}

/** Whether only the beginning of a text is on the page. */
const isCut = (element) => Boolean(after(element)?.matches("p.rest:has(a[href*='value?'])"));

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only pages that a browser trusts have a clipboard; a selected field can be copied from on all.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "vh";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/** Shows the button of a text, once. */
function offer(element) {
  if (!element || element.nextElementSibling?.matches(".copy")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn copy";
  button.textContent = "Copy";
  button.dataset.of = element.matches(".call") ? "call" : "text";
  element.after(button);
}

/** Says what came of it, on the button and aloud. */
function tell(button, words) {
  said.textContent = words;
  button.dataset.word ??= button.textContent;
  button.textContent = words;
  setTimeout(() => {
    button.textContent = button.dataset.word;
    said.textContent = "";
  }, 2000);
}

async function put(button, text, words = "Copied") {
  const focused = document.activeElement;
  await copy(text);
  focused?.focus({ preventScroll: true });
  tell(button, words);
}

function press(button) {
  const { copy: text, copyLink: link } = button.dataset;
  const element = button.previousElementSibling;
  if (text !== undefined) put(button, text);
  else if (link !== undefined) put(button, new URL(link, location).href);
  else put(button, textOf(element), isCut(element) ? "Copied the beginning" : "Copied");
}

for (const come of ["pointerover", "focusin"]) {
  document.addEventListener(come, (event) => offer(event.target.closest?.(TEXTS)));
}
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button.copy:not([data-of=value]), button[data-copy], button[data-copy-link]");
  if (button) press(button);
});
document.addEventListener("copy:put", ({ detail: { button, text } }) => {
  if (text === undefined) tell(button, "Not copied: it cannot be read");
  else put(button, text);
});
