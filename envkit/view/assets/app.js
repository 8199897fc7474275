// The shell: addresses, the bar on top, the theme, keys that hold everywhere. A view is a function that fills an element
// and returns {keys, close, update}.

import { fill, h, icon, failed, plain, say } from "./dom.js";
import { trialsView } from "./trials.js";

const VIEWS = {
  runs: () => import("./runs.js").then((m) => m.runsView),
  trials: () => Promise.resolve(trialsView),
  trial: () => import("./trial.js").then((m) => m.trialView),
  compare: () => import("./compare.js").then((m) => m.compareView),
};

const main = document.getElementById("main"), bar = document.getElementById("bar");
let runs = [], current = null, place = null, generation = 0;

/** An address: #/runs/RUN, #/runs/RUN/trials/ID/TAB, #/compare; behind ? the parameters. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const params = new URLSearchParams(query);
  if (parts[0] === "compare") return { view: "compare", params };
  if (parts[0] === "runs" && parts[2] === "trials" && parts[3]) {
    return { view: "trial", run: parts[1], trial: parts[3], tab: parts[4] || "conversation", params };
  }
  if (parts[0] === "runs" && parts[1]) return { view: "trials", run: parts[1], params };
  return { view: "runs", params };
}

export function go(hash, { replace = false } = {}) {
  if (replace) { history.replaceState(null, "", hash); show(); } else location.hash = hash.replace(/^#/, "");
}

async function show() {
  const next = parse(location.hash);
  if (next.view === "runs" && runs.length === 1 && !location.hash.startsWith("#/all")) {
    go(`#/runs/${encodeURIComponent(runs[0].key)}`, { replace: true });
    return;
  }
  const same = current && place && place.view === next.view && place.run === next.run && place.trial === next.trial;
  place = next;
  if (same && current.update && current.update(next)) return;
  const mine = ++generation;
  if (current && current.close) current.close();
  current = null;
  drawBar();
  const host = h("div.view");
  try {
    const view = await VIEWS[next.view]();
    if (mine !== generation) return;
    fill(main, host);
    const made = await view(host, next, { runs, go, drawBar });
    if (mine !== generation) { if (made && made.close) made.close(); return; }
    current = made;
  } catch (error) {
    if (mine === generation) fill(main, failed(error));
  }
}

function drawBar() {
  const chooser = runs.length > 1
    ? h("select.chooser", {
      "aria-label": "Run", onchange: (event) => go(event.target.value ? `#/runs/${encodeURIComponent(event.target.value)}` : "#/all"),
    }, h("option", { value: "" }, "All runs"), runs.map((run) => h("option", { value: run.key, selected: place.run === run.key }, plain(run.name))))
    : runs.length ? h("a.run", { href: `#/runs/${encodeURIComponent(runs[0].key)}` }, plain(runs[0].name)) : null;
  const crumbs = [];
  if (place.view === "trial") crumbs.push(h("span.sep", { "aria-hidden": "true" }, "/"), h("span.crumb", { title: place.trial }, plain(place.trial)));
  if (place.view === "compare") crumbs.push(h("span.sep", { "aria-hidden": "true" }, "/"), h("span.crumb", null, "compare"));
  fill(bar,
    h("a.brand", { href: runs.length > 1 ? "#/all" : "#/", "aria-label": "envkit view, home" }, h("span.mark", { "aria-hidden": "true" }), h("span.name", null, "envkit")),
    h("nav.crumbs", { "aria-label": "Where you are" }, chooser, crumbs),
    h("span.grow"),
    h("span#live.live", { hidden: true }, h("span.pulse", { "aria-hidden": "true" }), "running"),
    h("button.iconbutton", { title: "Keys (?)", "aria-label": "Keyboard shortcuts", onclick: help }, icon("help")),
    h("button.iconbutton", { id: "theme", title: "Light or dark (t)", "aria-label": "Switch between light and dark", onclick: toggleTheme }, icon(dark() ? "sun" : "moon")));
}

const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function toggleTheme() {
  const next = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("envkit-theme", next); } catch { /* it holds for this page alone */ }
  drawBar();
  document.getElementById("theme").focus();
  say(`${next} theme`);
}

const ARROWS = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→" };
const EVERYWHERE = [["?", "these keys"], ["t", "light or dark"], ["/", "search"], ["Esc", "leave a field, close, go back"]];

function help() {
  const keys = [...((current && current.keys) || []).map(([key, what]) => [key, what]), ...EVERYWHERE];
  const dialog = h("dialog.help", { "aria-label": "Keyboard shortcuts", onclose: () => dialog.remove(), onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", null, "Keys"),
    h("dl", null, keys.map(([key, what]) => [h("dt", null, key.split(" ").map((one) => h("kbd", null, ARROWS[one] || one))), h("dd", null, what)])),
    h("form", { method: "dialog" }, h("button", null, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && field) { field.blur(); main.focus(); return; }
  if (field && !(field.type === "checkbox" || field.type === "radio")) return;
  const own = current && current.keys && current.keys.find(([key]) => key.split(" ").includes(event.key));
  if (own && own[2] && own[2](event) !== false) { event.preventDefault(); return; }
  if (event.key === "?") { event.preventDefault(); help(); }
  else if (event.key === "t") { event.preventDefault(); toggleTheme(); }
  else if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && place.view === "compare") history.back();
});

addEventListener("hashchange", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawBar);

runs = window.envkit.given.runs;
show();
