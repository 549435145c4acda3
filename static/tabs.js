// Is the tab that is shown in sight? Where the row of tabs is wider than the window it is scrolled there once, and the page
// itself is not.

const tabs = document.getElementById("tabs");
const current = tabs?.querySelector("[aria-current]");
if (current) {
  const [row, tab] = [tabs.getBoundingClientRect(), current.getBoundingClientRect()];
  if (tab.right > row.right) tabs.scrollLeft += tab.left + tab.width / 2 - row.left - row.width / 2;
}
