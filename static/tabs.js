// Scrolls the row of tabs once to the open tab, if the row is wider than the window. Doesn't scroll the page.

const tabs = document.getElementById("tabs");
const current = tabs?.querySelector("[aria-current]");
if (current) {
  const [row, tab] = [tabs.getBoundingClientRect(), current.getBoundingClientRect()];
  if (tab.right > row.right) tabs.scrollLeft += tab.left + tab.width / 2 - row.left - row.width / 2;
}
