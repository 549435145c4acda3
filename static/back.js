// Reloads the page when the user goes back to a step. Steps change without a page load.
// htmx does that too, but only once it runs, so a quick second "back" would be lost. A classic script in <head> is in time.

addEventListener("popstate", (event) => {
  if (event.state?.htmx) location.reload();
});
