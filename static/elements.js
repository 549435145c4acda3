// Makes elements for other scripts. Text is set as text, never as markup.

function made(tag, attributes = {}, text = "") {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

window.elements = { made };
