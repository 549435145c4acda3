// Sets the theme (system, light or dark) on <html> before the first paint. The browser stores the choice.
// A classic script in <head>, because a module would run after the page was already drawn in the wrong colors.

(() => {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  // The style sheet shows elements that need scripts only with this mark.
  root.dataset.js = "";

  const stored = () => {
    try {
      return themes.includes(localStorage.theme) ? localStorage.theme : "system";
    } catch {
      return root.dataset.theme ?? "system";
    }
  };

  const show = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    const button = document.querySelector("[data-theme-button]");
    const words = button?.querySelector(".vh");
    if (!words) return; // another tab changed the theme before this page was complete
    const next = themes[(themes.indexOf(theme) + 1) % themes.length];
    button.title = `Theme: ${theme}`;
    words.textContent = `Theme: ${theme}. Switch to ${next}`;
  };

  show(stored());
  document.addEventListener("DOMContentLoaded", () => show(stored()));
  addEventListener("storage", () => show(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-button]")) return;
    const next = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
    try {
      localStorage.theme = next;
    } catch {
      // Storage is off: the choice lasts as long as the page.
    }
    show(next);
  });
})();
