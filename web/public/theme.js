// Runs before anything is drawn, so that a page whose theme was chosen never shows the other one first.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem('hostler.theme');
  } catch {
    // A browser without storage follows the system.
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
