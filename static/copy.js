// Copies texts, calls, and the contents of copy buttons. values.js copies JSON values. A text gets its button when the
// pointer or the focus reaches it, so that a page of a thousand texts doesn't have a thousand buttons.

const TEXTS = "main pre, main .pair .call";
const said = document.createElement("p");
said.className = "vh";
said.setAttribute("role", "status");
document.body.append(said); // a live region must exist before it announces anything

/** The original text of an element: a diff with its signs, or a folded text with its rest. */
function textOf(element) {
  if (element.matches(".lines-of")) {
    const sign = { INS: "+", DEL: "-" };
    const lines = [...element.children].map((line) => (line.matches(".at") ? "" : (sign[line.tagName] ?? " ")) + line.textContent);
    return lines.map((line) => (line.endsWith("\n") ? line : `${line}\n`)).join("");
  }
  const rest = after(element);
  if (!rest?.matches("details.rest")) return element.textContent;
  const joint = rest.querySelector("summary").textContent.endsWith(", line continues") ? "" : "\n";
  return element.textContent + joint + rest.querySelector("pre").textContent;
}

/** The element after a text and its button. */
function after(element) {
  const next = element.nextElementSibling;
  return next?.matches(".copy") ? next.nextElementSibling : next;
}

/** Whether the page has only the beginning of a text. */
const isCut = (element) => Boolean(after(element)?.matches("p.rest:has(a[href*='value?'])"));

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only trusted pages have a clipboard. Copying from a selected field works on all pages.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "vh";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/** Adds a button to a text, once. */
function offer(element) {
  if (!element || element.nextElementSibling?.matches(".copy")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn copy";
  button.textContent = "Copy";
  button.dataset.of = element.matches(".call") ? "call" : "text";
  element.after(button);
}

/** Announces the outcome on the button and to screen readers. */
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
  if (text === undefined) tell(button, "Not copied: the value can't be read");
  else put(button, text);
});
