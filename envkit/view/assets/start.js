// Stands in the page itself and runs before anything is painted: the theme, and the first requests of the view that the
// address names, so that its data comes beside its scripts and not after them. `ask` (dom.js) takes what was asked here.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("envkit-theme"); } catch (_) { /* storage is refused: the system's theme */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;

  const given = JSON.parse(document.getElementById("given").textContent);
  const early = {};
  window.envkit = { given, early };

  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean), params = new URLSearchParams(query);
  if (!parts.length && given.runs.length === 1) parts.push("runs", encodeURIComponent(given.runs[0].key));
  if (parts[0] !== "runs" || !parts[1]) return;
  const ask = (path, wanted) => {
    const text = String(new URLSearchParams(wanted)), url = `api/${path}${text ? `?${text}` : ""}`;
    early[url] = fetch(url);
    early[url].catch(() => {}); // who takes it is told
  };
  const load = (name) => {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = `assets/${name}.js`;
    document.head.append(link);
  };
  const tab = parts[4] || "conversation";
  try {
    if (parts[2] === "trials" && parts[3]) {
      ask(`runs/${parts[1]}/trials/${parts[3]}/open`, [["attempt", params.get("attempt")], ["thread", params.get("thread")], ["tab", tab], ["at", /^\d{1,15}$/.test(params.get("at") || "") ? params.get("at") : null]].filter(([, value]) => value));
      ["trial", { conversation: "reader", criteria: "criteria", files: "files", tokens: "tokens" }[tab]].filter(Boolean).forEach(load);
    } else if (!query) ask(`runs/${parts[1]}/trials`, [["offset", 0], ["limit", 200]]);
  } catch (_) { /* an odd address: the view itself says what is wrong with it */ }
})();
