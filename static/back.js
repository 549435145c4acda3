// Does the page show what its address names? Steps change without a load, so going back between them must load the page.
// htmx does that too, but only once it runs; a quick second "back" would be lost. A classic script in <head> is in time.

addEventListener("popstate", (event) => {
  if (event.state?.htmx) location.reload();
});
