// Before anything is painted: the theme that was chosen, or the system's.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("envkit-theme"); } catch (_) { /* storage is refused: the system's theme */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
