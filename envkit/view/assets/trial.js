// One trial: what it came to, and its tabs.

import { afterPaint, ask, bytes, empty, enc, failed, fill, h, icon, number, plain, putText, rewardBar, seconds, short, statusPill, tabList, usd, when, words } from "./dom.js";
import { queryOf } from "./trials.js";

const TABS = {
  conversation: () => import("./reader.js").then((m) => m.readerTab),
  criteria: () => import("./criteria.js").then((m) => m.criteriaTab),
  files: () => import("./files.js").then((m) => m.filesTab),
  tokens: () => import("./tokens.js").then((m) => m.tokensTab),
  record: () => Promise.resolve(recordTab),
};

export async function trialView(host, place, { go }) {
  const { run, trial } = place;
  let params = place.params, tab = place.tab in TABS ? place.tab : "conversation", made = null, closed = false, detail, near = { rows: [] };
  const base = `runs/${enc(run)}/trials/${enc(trial)}`;
  const filters = () => { const query = new URLSearchParams(params); for (const one of ["attempt", "item", "part", "file", "where", "at", "thread"]) query.delete(one); return query; };
  const address = (id, name, more = {}) => {
    const query = id === trial ? new URLSearchParams(params) : filters();
    for (const one of ["item", "part", "file", "where", "at"]) query.delete(one);
    for (const [key, value] of Object.entries(more)) { query.delete(key); if (value !== null && value !== undefined) query.set(key, value); }
    return `#/runs/${enc(run)}/trials/${enc(id)}/${name}${String(query) ? `?${query}` : ""}`;
  };

  // What the first look needs comes in one answer; later looks ask for their own.
  let { first, ...found } = await ask(`${base}/open`, { attempt: params.get("attempt"), thread: params.get("thread"), tab, at: /^\d{1,15}$/.test(params.get("at") || "") ? params.get("at") : null });
  detail = found;
  document.title = `${detail.task} · envkit view`;
  const top = h("section.trialhead", { "aria-label": "The trial" });
  const panel = h("div.panel", { id: "panel", role: "tabpanel", tabindex: "-1" });
  fill(host, h("div.trial", null, top, panel));

  function drawTop() {
    const o = detail.outcome, usage = o.usage || {}, spec = detail.spec || {};
    const took = o.started_at && o.finished_at ? (new Date(o.finished_at) - new Date(o.started_at)) / 1000 : null;
    const model = (spec.policy && spec.policy.options && spec.policy.options.model) || detail.model;
    const failedCriteria = detail.verdict ? detail.verdict.criteria.filter((c) => c.outcome !== "passed").length : 0;
    const facts = [
      ["policy", [(spec.policy && spec.policy.name) || (o.policy && o.policy.name), model].filter(Boolean).join(" · ")], ["harness", (spec.harness && spec.harness.name) || (o.harness && o.harness.name)],
      ["stop", o.stop ? words(o.stop) : null], ["turns", o.turns === null || o.turns === undefined ? null : number(o.turns)], ["tool calls", o.tool_calls === null || o.tool_calls === undefined ? null : number(o.tool_calls)],
      ["sampled", usage.completion_tokens ? `${short(usage.completion_tokens)} tokens` : null], ["context", usage.max_context_tokens ? `${short(usage.max_context_tokens)} tokens` : null],
      ["cost", usage.cost_usd ? usd(usage.cost_usd) : null], ["took", took !== null ? seconds(took) : null], ["finished", o.finished_at ? when(o.finished_at) : null],
    ].filter(([, value]) => value);
    const neighbours = near.rows || [], at = neighbours.findIndex((row) => row.id === trial);
    const before = at > 0 ? neighbours[at - 1] : null, after = at >= 0 ? neighbours[at + 1] : null;
    fill(top,
      h("div.headline", null,
        h("a.back", { href: `#/runs/${enc(run)}${String(filters()) ? `?${filters()}` : ""}`, title: "Back to the list" }, icon("left"), h("span", null, "Trials")),
        h("h1", null, plain(detail.task), detail.sample !== undefined && detail.sample !== null ? h("span.sample", null, ` #${detail.sample}`) : null),
        statusPill(o.status || detail.status), rewardBar(o.reward, o),
        h("span.grow"),
        detail.attempts.length > 1 ? h("label.attempt", null, "Attempt ", h("select", { "aria-label": "Attempt", onchange: (event) => go(address(trial, tab, { attempt: event.target.value, thread: null })) },
          detail.attempts.map((a) => h("option", { value: a.number, selected: a.number === detail.attempt }, `${a.number}: ${words(a.failure_kind || a.status || "running")}`)))) : null,
        near.place !== undefined && near.place !== null ? h("span.soft.place", null, `${(near.place + 1).toLocaleString("en")} of ${near.total.toLocaleString("en")}`) : null,
        h("button.iconbutton", { disabled: !before, title: "Trial before ([)", "aria-label": "Trial before", onclick: () => go(address(before.id, tab)) }, icon("up")),
        h("button.iconbutton", { disabled: !after, title: "Next trial (])", "aria-label": "Next trial", onclick: () => go(address(after.id, tab)) }, icon("down")),
        h("a.button", { href: `#/compare?${new URLSearchParams([["a", `${run}:${trial}`]])}` }, icon("swap"), "Compare")),
      h("dl.facts", null, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, plain(value))))),
      o.failure ? h("div.failure", { role: "note" }, h("b", null, words(o.failure.kind)), h("span.soft", null, ` at the ${words(o.failure.boundary)}${o.failure.retriable ? ", retriable" : ""}`), h("pre", null, clip(o.failure.message))) : null,
      tabList("Parts of the trial", [
        ["conversation", "Conversation", o.turns || null], ["criteria", "Criteria", detail.verdict ? (failedCriteria ? `${failedCriteria} of ${detail.verdict.count} failed` : detail.verdict.count) : null],
        ["files", "Files"], ["tokens", "Tokens"], ["record", "Record"],
      ], tab, (name, focus) => { go(address(trial, name)); if (focus) requestAnimationFrame(() => document.getElementById(`tab-${name}`)?.focus()); }));
  }

  const clip = (text) => { const out = h("span"); putText(out, String(text || "").slice(0, 2000)); return out; };

  async function drawTab() {
    if (made && made.close) made.close();
    made = null;
    panel.setAttribute("aria-labelledby", `tab-${tab}`);
    const mine = tab, given = first;
    first = null;
    const body = h("div.tabbody");
    fill(panel, body);
    try {
      const load = await TABS[tab]();
      if (closed || mine !== tab) return;
      const now = await load(body, { base, detail, params, go, given, address: (name, more) => address(trial, name, more) });
      if (closed || mine !== tab) { if (now && now.close) now.close(); return; }
      made = now;
      view.keys = [...(made && made.keys ? made.keys : []), ...own];
    } catch (error) {
      if (!closed && mine === tab) fill(body, failed(error));
    }
  }

  const step = (by) => { const at = near.rows.findIndex((row) => row.id === trial); const to = at >= 0 ? near.rows[at + by] : null; if (to) go(address(to.id, tab)); };
  const own = [
    ...Object.keys(TABS).map((name, at) => [String(at + 1), name, () => go(address(trial, name))]),
    ["[", "trial before, in the list's order", () => step(-1)], ["]", "next trial", () => step(1)],
    ["u Escape", "back to the list", () => go(`#/runs/${enc(run)}${String(filters()) ? `?${filters()}` : ""}`)],
  ];
  const view = {
    keys: own,
    close: () => { closed = true; if (made && made.close) made.close(); },
    update: (next) => {
      if (next.params.get("attempt") !== params.get("attempt")) return false;
      const before = params;
      params = next.params;
      if (next.tab === tab && made && made.update && made.update(params, before)) return true;
      tab = next.tab in TABS ? next.tab : "conversation";
      drawTop();
      drawTab();
      return true;
    },
  };
  drawTop();
  await drawTab();
  const asked = { ...queryOf(filters()), around: trial, facets: 0 };
  afterPaint(() => { if (!closed) ask(`runs/${enc(run)}/trials`, asked).then((found) => { if (!closed) { near = found; drawTop(); } }, () => {}); });
  return view;
}

async function recordTab(body, { base, detail }) {
  const o = detail.outcome, log = h("div.log");
  const json = (value) => { const pre = h("pre.code"); putText(pre, JSON.stringify(value, null, 2)); return pre; };
  const timings = Object.entries(o.timings || {}).filter(([, s]) => typeof s === "number").sort((a, b) => b[1] - a[1]);
  const most = Math.max(1e-9, ...timings.map(([, s]) => s));
  async function show(name, offset) {
    fill(log, h("p.soft", null, "Reading…"));
    try {
      const piece = await ask(`${base}/log`, { attempt: detail.attempt, name, offset });
      const pre = h("pre.code.tall", { tabindex: "0", "aria-label": `Log ${name}` });
      putText(pre, piece.text);
      fill(log, h("h3", null, plain(name), h("span.soft", null, ` bytes ${piece.start.toLocaleString("en")} to ${piece.end.toLocaleString("en")} of ${piece.size.toLocaleString("en")}`)),
        h("div.row", null, piece.start > 0 ? h("button", { onclick: () => show(name, Math.max(0, piece.start - 200000)) }, "Earlier") : null, piece.end < piece.size ? h("button", { onclick: () => show(name, piece.end) }, "Later") : null,
          piece.end < piece.size ? h("button", { onclick: () => show(name, -200000) }, "End") : null), pre);
    } catch (error) { fill(log, failed(error)); }
  }
  fill(body, h("div.scroll.record", null,
    detail.attempts.length ? h("section", null, h("h2", null, "Attempts"), h("table.plain", null, h("thead", null, h("tr", null, ["attempt", "status", "reward", "failure", "message"].map((t) => h("th", null, t)))),
      h("tbody", null, detail.attempts.map((a) => h("tr", null, h("td", null, a.number, a.number === detail.decided ? " (decided)" : ""), h("td", null, statusPill(a.status)), h("td", null, number(a.reward, 3)), h("td", null, words(a.failure_kind || "")), h("td.msg", null, plain(String(a.failure_message || "").slice(0, 400)))))))) : null,
    timings.length ? h("section", null, h("h2", null, "Where the time went"), h("div.bars", null, timings.map(([name, s]) => h("div.barrow", null, h("span.name", null, words(name)), h("span.track", null, h("span.fill", { style: { width: `${100 * s / most}%` } })), h("span.n", null, seconds(s)))))) : null,
    (o.notes || []).length ? h("section", null, h("h2", null, "Notes"), h("ul", null, o.notes.map((n) => h("li", null, plain(n))))) : null,
    detail.regrades.length ? h("section", null, h("h2", null, "Regraded"), h("table.plain", null, h("thead", null, h("tr", null, ["", "reward then", "reward now", "criteria that changed", "why none"].map((t) => h("th", null, t)))),
      h("tbody", null, detail.regrades.map((r) => h("tr", null, h("td", null, plain(r.name)), h("td", null, number(r.old_reward, 3)), h("td", null, number(r.new_reward, 3)), h("td", null, plain(Object.keys(r.changed || {}).join(", "))), h("td", null, plain((r.failure && r.failure.message) || ""))))))) : null,
    detail.logs.length ? h("section", null, h("h2", null, "Logs"), h("div.row.wrap", null, detail.logs.map((l) => h("button", { onclick: () => show(l.name, -200000) }, plain(l.name), h("span.soft", null, ` ${bytes(l.size)}`)))), log) : null,
    h("section", null, h("h2", null, "What was asked"), json(detail.spec)),
    h("section", null, h("h2", null, "What it came to"), json({ ...o, verdict_extra: detail.verdict && detail.verdict.extra }))));
  return {};
}
