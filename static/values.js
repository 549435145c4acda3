// Copies any value of a JSON tree. The page may show only a part of it, with signs for invisible characters, so the text
// comes from the server.

const VALUES = "main [data-value], main [data-value] .json > li";

/** Adds a button to a value, once: after it, or in the corner of a value with several lines. */
function offer(element) {
  if (!element) return;
  const isRow = element.matches("li");
  const there = isRow ? element.querySelector(":scope > .copy") : element.nextElementSibling;
  if (there?.matches(".copy")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn copy";
  button.textContent = "Copy";
  button.dataset.of = "value";
  if (isRow) element.append(button);
  else element.after(button);
}

async function textOf(element) {
  const root = element.closest("[data-value]");
  const url = new URL(root.dataset.value, location);
  let below = "";
  for (let row = element; row !== root; row = row.parentElement.closest(".json > li, [data-value]")) {
    const key = row.querySelector(":scope > .k, :scope > .ix").textContent;
    below = `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}${below}`;
  }
  url.searchParams.set("at", url.searchParams.get("at") + below);
  url.searchParams.set("as", "text");
  const answer = await fetch(url);
  return answer.ok ? answer.text() : undefined;
}

async function press(button) {
  const before = button.previousElementSibling;
  const element = before?.matches("[data-value]") ? before : button.closest(".json > li");
  const text = await textOf(element).catch(() => undefined);
  document.dispatchEvent(new CustomEvent("copy:put", { detail: { button, text } }));
}

for (const come of ["pointerover", "focusin"]) {
  document.addEventListener(come, ({ target }) => offer(target.closest?.(VALUES)));
}
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.(".copy[data-of=value]");
  if (button) press(button);
});
