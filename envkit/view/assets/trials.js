// The list of a run's trials: filters with counts, text, order; live while the run is.

import { afterPaint, ask, debounce, enc, failed, fill, h, icon, number, plain, rewardBar, say, seconds, short, statusPill, tile, usd, when, words } from "./dom.js";
import { Pages, VirtualList } from "./vlist.js";

const ROW = 44, PAGE = 200;
// Values of a filter: all that are shown, and those that are seen first.
const OPTIONS = 120, OPTIONS_FIRST = 24;
const COLUMNS = [
  ["task", "Task", "task"], ["status", "Status", "status"], ["reward", "Reward", "reward"], ["failure", "Failure or stop", "why"],
  ["policy", "Policy", "policy"], ["turns", "Turns", "num"], ["tokens", "Tokens", "num"], ["seconds", "Time", "num"], ["finished", "Finished", "when"],
];
const FACETS = [["status", "Status"], ["reward", "Reward"], ["failure", "Failure"], ["stop", "Stop reason"], ["policy", "Policy"], ["model", "Model"], ["harness", "Harness"], ["task", "Task"]];
const REWARDS = { full: "full (1)", partial: "partial", zero: "zero", none: "none" };
const STRIP = ["scored", "unscored", "failed", "cancelled", "running"];

/** How trials ended, as one strip. */
export function statusStrip(summary, planned) {
  const rest = Math.max(0, (planned || 0) - summary.trials);
  const parts = [...STRIP.map((name) => [name, summary.status[name] || 0]), ["to come", rest]].filter(([, n]) => n);
  const total = parts.reduce((sum, [, n]) => sum + n, 0) || 1;
  return h("div.strip", { role: "img", "aria-label": parts.map(([name, n]) => `${n} ${name}`).join(", ") || "no trials" },
    parts.map(([name, n]) => h(`span.s-${name.replace(" ", "-")}`, { style: { flexGrow: n / total }, title: `${n} ${name}` })));
}

/** What the address says of filters, as the server is asked. */
export function queryOf(params) {
  const out = {};
  for (const name of ["q", "sort", "down", "low", "high"]) if (params.get(name)) out[name] = params.get(name);
  for (const [facet] of FACETS) if (params.has(facet)) out[facet] = params.getAll(facet);
  return out;
}

export async function trialsView(host, place, { go }) {
  const run = place.run;
  let drawn = false, params = place.params, chosen = [], cursor = -1, version = 0, total = 0, searched = 0, timer = 0, closed = false, taskFilter = "";
  const pages = new Pages(PAGE, async (offset, limit) => {
    const found = await ask(`runs/${enc(run)}/trials`, { ...queryOf(params), offset, limit, facets: 0 });
    return found.rows;
  }, (start, count) => { for (let i = start; i < start + count; i++) list.refresh(i); });

  const side = h("aside.facets", { "aria-label": "Filters" });
  const head = h("section.overview", { "aria-label": "Summary of the trials listed" });
  const search = h("input", {
    type: "search", placeholder: "Search tasks, failures, answers, criteria", "aria-label": "Search the trials", value: params.get("q") || "",
    oninput: debounce(180, () => set({ q: search.value.trim() || null })),
  });
  const count = h("span.count.soft");
  const header = h("div.thead", { role: "row" }, h("span.c-pick", { role: "columnheader" }, h("span.sr", null, "Chosen to compare")),
    COLUMNS.map(([key, name, kind]) => h(`span.c-${key}`, { role: "columnheader", class: kind === "num" ? "num" : "", "aria-sort": "none", dataset: { key } },
      h("button.sort", { onclick: () => sortBy(key) }, name, h("span.arrow", { "aria-hidden": "true" })))));
  const scroller = h("div.tbody", { tabindex: "0", "aria-label": "Trials", role: "rowgroup" });
  const grid = h("div.grid", { role: "grid", "aria-label": "Trials", "aria-colcount": COLUMNS.length + 1 }, header, scroller);
  const compareBar = h("div.comparebar", { hidden: true });
  const filters = h("button.filters", { "aria-expanded": "false", onclick: () => { const open = host.classList.toggle("showfacets"); filters.setAttribute("aria-expanded", String(open)); } }, "Filters");
  fill(host, h("div.trials", null, side, h("div.list", null, head, h("div.toolbar", null, filters, h("label.search", null, icon("search"), search), count), grid, compareBar)));

  const list = new VirtualList(scroller, { fixed: true, estimate: () => ROW, render: row, onrange: (first, last) => pages.want(first, last) });

  function row(index) {
    const trial = pages.get(index);
    const selected = index === cursor;
    const element = h("div.trow", { role: "row", "aria-rowindex": index + 2, "aria-selected": String(selected), id: `row-${index}`, class: selected ? "cursor" : "" });
    if (!trial) return fill(element, h("span.ghost"));
    const why = trial.failure ? h("span.fail", null, words(trial.failure)) : trial.stop && trial.stop !== "answered" ? h("span.stop", null, words(trial.stop)) : h("span.soft", null, words(trial.stop || ""));
    const [pack, ...rest] = String(trial.task || trial.id).split("/");
    const policy = [trial.policy, trial.model].filter(Boolean).join(" · ");
    element.addEventListener("click", (event) => { if (!event.target.closest("input, a") && !String(getSelection())) open(index); });
    return fill(element,
      h("span.c-pick", { role: "gridcell" }, h("input", { type: "checkbox", tabindex: "-1", checked: chosen.includes(trial.id), "aria-label": `Compare ${trial.id}`, onchange: () => pick(trial.id) })),
      h("span.c-task", { role: "gridcell", title: trial.id }, h("a", { href: href(trial), tabindex: "-1" }, rest.length ? h("span.pack", null, plain(pack), "/") : null, plain(rest.join("/") || pack)),
        trial.sample !== null ? h("span.sample", { title: "sample" }, `#${trial.sample}`) : null, trial.attempts > 1 ? h("span.tries", { title: `${trial.attempts} attempts` }, `×${trial.attempts}`) : null),
      h("span.c-status", { role: "gridcell" }, statusPill(trial.status)),
      h("span.c-reward", { role: "gridcell" }, trial.status === "running" ? h("span.soft", null, "–") : rewardBar(trial.reward)),
      h("span.c-failure", { role: "gridcell" }, why),
      h("span.c-policy", { role: "gridcell", title: `${policy} under ${trial.harness}` }, plain(policy || "–"), h("span.soft.under", null, trial.harness ? plain(trial.harness) : "")),
      h("span.c-turns.num", { role: "gridcell" }, number(trial.turns)),
      h("span.c-tokens.num", { role: "gridcell" }, short(trial.tokens)),
      h("span.c-seconds.num", { role: "gridcell" }, seconds(trial.seconds)),
      h("span.c-finished", { role: "gridcell" }, when(trial.finished)));
  }

  const href = (trial) => {
    const query = new URLSearchParams(params);
    return `#/runs/${enc(run)}/trials/${enc(trial.id)}/conversation${String(query) ? `?${query}` : ""}`;
  };
  const open = (index) => { const trial = pages.get(index); if (trial) go(href(trial)); };

  function pick(id) {
    chosen = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2);
    list.refresh();
    compareBar.hidden = !chosen.length;
    const ready = chosen.length === 2;
    fill(compareBar, h("span", null, ready ? "Two trials chosen" : "One trial chosen; choose another to compare"),
      h("button.primary", { disabled: !ready, onclick: compare }, "Compare"), h("button", { onclick: () => { chosen = []; pick(""); } }, "Clear"));
    if (!chosen.filter(Boolean).length) { chosen = []; compareBar.hidden = true; }
  }
  const compare = () => {
    if (chosen.length !== 2) { say("Choose two trials first, with x"); return; }
    go(`#/compare?${new URLSearchParams([["a", `${run}:${chosen[0]}`], ["b", `${run}:${chosen[1]}`]])}`);
  };

  function set(changes, { keepCursor = false } = {}) {
    const next = new URLSearchParams(params);
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      for (const one of Array.isArray(value) ? value : value === null ? [] : [value]) next.append(name, one);
    }
    params = next;
    if (!keepCursor) cursor = -1;
    history.replaceState(null, "", `#/runs/${enc(run)}${String(next) ? `?${next}` : ""}`);
    load(true);
  }

  function sortBy(key) {
    const now = params.get("sort") || "finished", down = params.get("down") !== "0";
    const first = !["task", "status", "policy", "failure", "reward"].includes(key);
    set({ sort: key, down: (now === key ? !down : first) ? null : "0" });
  }

  let asking = null;
  async function load(top) {
    if (asking) asking.abort();
    asking = new AbortController();
    let found, seen = null;
    const looking = top ? 0 : Math.floor(list.first / PAGE);
    try {
      found = await ask(`runs/${enc(run)}/trials`, { ...queryOf(params), offset: 0, limit: PAGE }, asking.signal);
      // A run that is followed: what is in sight is there before the old rows go.
      if (looking) seen = await ask(`runs/${enc(run)}/trials`, { ...queryOf(params), offset: looking * PAGE, limit: PAGE, facets: 0 }, asking.signal);
    } catch (error) {
      if (error.name !== "AbortError" && !closed) fill(grid, failed(error));
      return;
    }
    if (closed) return;
    const at = top || !drawn ? 0 : scroller.scrollTop;
    ({ version, total, searched } = found);
    pages.forget();
    pages.put(0, found.rows);
    if (seen) pages.put(looking, seen.rows);
    // What stands around the list first: it reads its own size, and the page is laid out once.
    grid.setAttribute("aria-rowcount", total + 1);
    drawFacets(found.facets);
    drawOverview(found.summary);
    drawSort();
    list.inner.replaceChildren();
    list.reset(total);
    if (drawn) { scroller.scrollTop = at; list.draw(); }
    drawn = true;
    const partly = params.get("q") && searched < found.summary.trials && searched < total;
    const noun = found.kept ? "kept rollout" : "trial";
    fill(count, `${total.toLocaleString("en")} ${noun}${total === 1 ? "" : "s"}`, partly ? " (records are still being read)" : "");
    say(`${total} ${noun}s`);
    scroller.classList.toggle("none", !total);
    if (!total) list.inner.replaceChildren(h("p.empty", null, "No trial matches. ", h("button.link", { onclick: () => { search.value = ""; go(`#/runs/${enc(run)}`, { replace: true }); } }, "Show all")));
  }

  function drawSort() {
    const key = params.get("sort") || "finished", down = params.get("down") !== "0";
    for (const cell of header.children) {
      if (cell.dataset.key) cell.setAttribute("aria-sort", cell.dataset.key === key ? (down ? "descending" : "ascending") : "none");
    }
  }

  function drawFacets(facets) {
    const active = document.activeElement && side.contains(document.activeElement) ? document.activeElement.dataset.facet : null;
    const scrolled = drawn ? side.scrollTop : 0;
    const any = FACETS.some(([facet]) => params.has(facet)) || params.get("low") || params.get("high");
    fill(side, h("div.facethead", null, h("h2", null, "Filters"), any ? h("button.link", { onclick: () => set(Object.fromEntries([...FACETS.map(([f]) => [f, null]), ["low", null], ["high", null]])) }, "Clear all") : null),
      FACETS.map(([facet, name]) => group(facet, name, facets[facet])));
    if (scrolled) side.scrollTop = scrolled;
    if (active) { const back = [...side.querySelectorAll("[data-facet]")].find((one) => one.dataset.facet === active); if (back) back.focus(); }
  }

  function group(facet, name, counts) {
    const on = new Set(params.getAll(facet));
    let entries = Object.entries(counts || {});
    for (const value of on) if (!(value in (counts || {}))) entries.push([value, 0]);
    if (facet === "reward") entries = Object.keys(REWARDS).filter((key) => counts[key] || on.has(key)).map((key) => [key, counts[key] || 0]);
    const real = entries.filter(([value]) => value !== "-");
    if (!real.length || (["policy", "model", "harness"].includes(facet) && real.length < 2 && !on.size)) return null;
    if (facet === "failure") entries = real;
    const body = h("div.options");
    const draw = (most = OPTIONS) => {
      const wanted = facet === "task" ? entries.filter(([value]) => value.toLowerCase().includes(taskFilter) || on.has(value)) : entries;
      if (facet === "task") wanted.sort((a, b) => (on.has(b[0]) - on.has(a[0])) || (a[0] < b[0] ? -1 : 1));
      fill(body, wanted.slice(0, most).map(([value, n]) => h("label.option", { class: n ? "" : "zero" },
        h("input", { type: "checkbox", checked: on.has(value), dataset: { facet: `${facet}:${value}` }, onchange: () => { if (on.has(value)) on.delete(value); else on.add(value); set({ [facet]: [...on] }); } }),
        h("span.name", { title: value }, value === "-" ? "none" : facet === "reward" ? REWARDS[value] : ["task", "model"].includes(facet) ? plain(value) : words(value)), h("span.n", null, n.toLocaleString("en")))),
        wanted.length > most ? h("p.soft.small", null, `${wanted.length - most} more: type to find them`) : null);
    };
    draw(drawn ? OPTIONS : OPTIONS_FIRST);
    if (!drawn && entries.length > OPTIONS_FIRST) afterPaint(() => { if (body.isConnected) draw(); });
    const find = facet === "task" && entries.length > 12 ? h("input.small", { type: "text", placeholder: `Find among ${entries.length} tasks`, "aria-label": "Find a task", value: taskFilter, oninput: (event) => { taskFilter = event.target.value.toLowerCase(); draw(); } }) : null;
    return h("fieldset", null, h("legend", null, name), find, body);
  }

  function drawOverview(s) {
    const most = Math.max(1, ...s.bins);
    fill(head, h("div.tiles", null,
      tile(number(s.mean, 3), `mean reward of ${short(s.status.scored || 0)} scored`),
      tile(s.perfect === null ? "–" : `${(100 * s.perfect).toFixed(0)} %`, "with full reward"),
      tile(short(s.trials), `trials of ${short(s.tasks)} task${s.tasks === 1 ? "" : "s"}`),
      tile(short((s.status.failed || 0) + (s.status.unscored || 0)), "without a verdict", (s.status.failed || 0) + (s.status.unscored || 0) ? "bad" : ""),
      s.turns !== null ? tile(number(s.turns, 1), "turns, mean") : null,
      s.tokens ? tile(short(s.tokens), "tokens sampled") : null,
      s.cost ? tile(usd(s.cost), "cost") : null,
      h("div.tile.histogram", null, h("div.bins", { role: "img", "aria-label": `Rewards in tenths: ${s.bins.join(", ")}` },
        s.bins.map((n, at) => h("button.bin", { title: `${n} with a reward of ${(at / 10).toFixed(1)} to ${((at + 1) / 10).toFixed(1)}`, tabindex: "-1", "aria-hidden": "true",
          onclick: () => set({ low: String(at / 10), high: at === 9 ? null : String((at + 1) / 10 - 1e-9) }) }, h("span", { style: { height: `${n ? Math.max(4, 100 * n / most) : 0}%` } })))), h("span", null, "rewards, 0 to 1"))),
      statusStrip(s));
  }

  function move(step) {
    if (!total) return;
    const before = cursor;
    cursor = Math.max(0, Math.min(total - 1, cursor < 0 ? list.first : cursor + step));
    list.scrollTo(cursor);
    list.refresh(before);
    list.refresh(cursor);
    scroller.focus({ preventScroll: true });
    requestAnimationFrame(() => scroller.setAttribute("aria-activedescendant", `row-${cursor}`));
  }

  async function follow() {
    clearTimeout(timer);
    try {
      const about = await ask(`runs/${enc(run)}`);
      if (closed) return;
      const live = document.getElementById("live");
      if (live) live.hidden = !about.live;
      if (about.planned && about.planned > about.summary.trials) count.title = `${about.planned - about.summary.trials} of ${about.planned} planned trials are still to come`;
      if (about.version !== version) await load(false);
      timer = setTimeout(follow, document.hidden ? 15000 : about.live ? 1500 : 5000);
    } catch { if (!closed) timer = setTimeout(follow, 8000); }
  }

  document.title = `${run} · envkit view`;
  await load(true);
  timer = setTimeout(follow, 800);
  const leave = () => { closed = true; clearTimeout(timer); list.close(); const live = document.getElementById("live"); if (live) live.hidden = true; };
  return {
    keys: [
      ["j ArrowDown", "next trial", () => move(1)], ["k ArrowUp", "trial before", () => move(-1)],
      ["PageDown", "a page on", () => move(Math.max(1, Math.floor(scroller.clientHeight / ROW) - 1))], ["PageUp", "a page back", () => move(-Math.max(1, Math.floor(scroller.clientHeight / ROW) - 1))],
      ["Home", "first trial", () => move(-1e9)], ["End", "last trial", () => move(1e9)],
      ["Enter o", "open it", (event) => { if (event.target.closest("button, a, input") || cursor < 0) return false; open(cursor); return true; }],
      ["x", "choose it to compare", () => { const trial = pages.get(cursor); if (trial) pick(trial.id); }], ["c", "compare the two chosen", compare],
    ],
    close: leave,
    update: (next) => { params = next.params; search.value = params.get("q") || ""; load(true); return true; },
  };
}
