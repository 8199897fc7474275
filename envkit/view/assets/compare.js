// Two trials beside each other: what they came to, criterion by criterion, how they worked, and both conversations, in
// step turn by turn.

import { ask, empty, enc, failed, fill, h, icon, number, plain, putText, rewardBar, seconds, short, statusPill, usd, words } from "./dom.js";
import { Reader } from "./reader.js";
import { common } from "./files.js";

const split = (text) => { const at = (text || "").indexOf(":"); return at > 0 ? { run: text.slice(0, at), trial: text.slice(at + 1) } : null; };

export async function compareView(host, place, { go, runs }) {
  document.title = "Compare · envkit view";
  const sides = { a: split(place.params.get("a")), b: split(place.params.get("b")) };
  const missing = sides.a && sides.b ? null : sides.a ? "b" : "a";
  if (missing) { await chooser(host, sides, missing, { go, runs, place }); return {}; }
  const base = Object.fromEntries(["a", "b"].map((s) => [s, `runs/${enc(sides[s].run)}/trials/${enc(sides[s].trial)}`]));
  const [a, b] = await Promise.all([ask(base.a), ask(base.b)]);
  const both = { a, b };
  const link = (s) => `#/runs/${enc(sides[s].run)}/trials/${enc(sides[s].trial)}/conversation`;
  const swap = () => go(`#/compare?${new URLSearchParams([["a", place.params.get("b")], ["b", place.params.get("a")]])}`);

  const rows = [
    ["Task", (d) => plain(d.task)], ["Policy", (d) => plain([d.spec?.policy?.name ?? d.outcome.policy?.name, d.spec?.policy?.options?.model ?? d.model].filter(Boolean).join(" · "))], ["Harness", (d) => plain(d.spec?.harness?.name ?? d.outcome.harness?.name)],
    ["Seed", (d) => d.spec?.seed], ["Stop", (d) => words(d.outcome.stop)], ["Failure", (d) => words(d.outcome.failure?.kind)], ["Turns", (d) => d.outcome.turns, 1], ["Tool calls", (d) => d.outcome.tool_calls, 1],
    ["Tokens sampled", (d) => d.outcome.usage?.completion_tokens, 1], ["Largest context", (d) => d.outcome.usage?.max_context_tokens, 1], ["Cost", (d) => d.outcome.usage?.cost_usd, 1, usd], ["Time", (d) => (d.outcome.finished_at ? (new Date(d.outcome.finished_at) - new Date(d.outcome.started_at)) / 1000 : null), 1, seconds],
  ];
  const facts = h("table.plain.compare", null, h("thead", null, h("tr", null, h("td"), h("th", { scope: "col" }, "A"), h("th", { scope: "col" }, "B"), h("th.num", { scope: "col" }, "B − A"))), h("tbody", null,
    rows.map(([name, get, numeric, show]) => {
      const [x, y] = [get(a), get(b)];
      if ((x === null || x === undefined || x === "") && (y === null || y === undefined || y === "")) return null;
      const text = (v) => (v === null || v === undefined || v === "" ? "–" : numeric ? (show || number)(v) : v);
      const difference = numeric && typeof x === "number" && typeof y === "number" ? y - x : null;
      return h("tr", { class: x !== y ? "differs" : "" }, h("th", { scope: "row" }, name), h("td", null, text(x)), h("td", null, text(y)), h("td.num", null, difference ? `${difference > 0 ? "+" : "−"}${(show || ((v) => number(v, 2)))(Math.abs(difference))}` : ""));
    })));

  const readers = {}, columns = h("div.sides.readers");
  let locked = true, leading = null, timer = 0;
  const lock = h("label.option", null, h("input", { type: "checkbox", checked: true, onchange: (event) => { locked = event.target.checked; } }), "in step, turn by turn");
  const tabs = h("div.choice", { role: "group", "aria-label": "What is compared" });
  const space = h("div.comparespace");
  let part = "outcome";
  const draw = () => {
    fill(tabs, [["outcome", "Outcome"], ["conversations", "Conversations"], ["answers", "Final answers"]].map(([key, name]) => h("button", { "aria-pressed": String(part === key), onclick: () => { part = key; draw(); } }, name)), part === "conversations" ? lock : null);
    fill(space, { outcome: () => h("div.scroll", { tabindex: "0" }, facts, criteria(a, b), tools), conversations: () => columns, answers: () => answers(a, b) }[part]());
    if (part === "conversations") conversations();
  };
  const tools = h("section");

  async function conversations() {
    if (columns.childElementCount) { for (const r of Object.values(readers)) { r.list.draw(); r.drawMap(); } return; }
    for (const s of ["a", "b"]) {
      const box = h("section.side", { "aria-label": `Conversation ${s.toUpperCase()}` }, h("h3", null, `${s.toUpperCase()}: ${plain(both[s].task)} `, rewardBar(both[s].outcome.reward)));
      const inner = h("div.readerspace");
      box.append(inner);
      columns.append(box);
      if (!both[s].has.conversation) { inner.append(empty("It left no conversation.")); continue; }
      readers[s] = new Reader(inner, { base: base[s], attempt: both[s].attempt }, {
        onscroll: (turn) => {
          if (!locked || turn === null || (leading && leading !== s)) return;
          leading = s;
          const other = readers[s === "a" ? "b" : "a"];
          if (other && other.list && other.turn() !== turn) other.toTurn(turn);
          clearTimeout(timer);
          timer = setTimeout(() => { leading = null; }, 150);
        },
      });
      readers[s].load().catch((error) => fill(inner, failed(error)));
    }
  }

  Promise.all(["a", "b"].map(async (s) => (both[s].has.conversation ? (await ask(`${base[s]}/conversation`, { attempt: both[s].attempt })).outline : []))).then(([x, y]) => {
    const count = (outline) => { const out = new Map(); for (const [kind, head] of outline) if (kind === "agent") for (const name of head.split(" · ")[0].split(", ")) if (/^[\w.-]{1,80}$/.test(name)) out.set(name, (out.get(name) || 0) + 1); return out; };
    const [m, n] = [count(x), count(y)], names = [...new Set([...m.keys(), ...n.keys()])].sort((p, q) => (n.get(q) || 0) + (m.get(q) || 0) - (n.get(p) || 0) - (m.get(p) || 0)).slice(0, 30);
    const errors = (outline) => outline.filter(([, , , , , bad]) => bad).length;
    if (names.length) fill(tools, h("h2", null, "How they worked"), h("table.plain.compare", null, h("thead", null, h("tr", null, h("th", null, "messages that call"), h("th.num", null, "A"), h("th.num", null, "B"))), h("tbody", null,
      names.map((name) => h("tr", null, h("td", null, h("code", null, plain(name))), h("td.num", null, m.get(name) || 0), h("td.num", null, n.get(name) || 0))), h("tr", null, h("td", null, "messages with errors"), h("td.num", null, errors(x)), h("td.num", null, errors(y))))));
  }, () => {});

  const head = (s) => h("a.comparehead", { href: link(s) }, h("span.letter", { "aria-hidden": "true" }, s.toUpperCase()), h("span.name", null, h("b", null, plain(both[s].task)), h("span.soft", null, plain(sides[s].trial))), statusPill(both[s].outcome.status || both[s].status), rewardBar(both[s].outcome.reward, both[s].outcome));
  fill(host, h("div.comparison", null, h("div.compareheads", null, head("a"), h("button.iconbutton", { title: "Swap A and B (s)", "aria-label": "Swap A and B", onclick: swap }, icon("swap")), head("b")), h("div.toolbar", null, tabs, h("span.grow"), a.task !== b.task ? h("span.pill.warn", null, "different tasks") : null), space));
  draw();
  const show = (key) => () => { part = key; draw(); };
  return {
    keys: [["1", "outcome", show("outcome")], ["2", "conversations", show("conversations")], ["3", "final answers", show("answers")], ["s", "swap A and B", swap]],
    close: () => { clearTimeout(timer); for (const r of Object.values(readers)) r.close(); },
  };
}

function criteria(a, b) {
  const of = (d) => new Map((d.verdict ? d.verdict.criteria : []).map((c) => [c.id, c]));
  const [x, y] = [of(a), of(b)], ids = [...new Set([...x.keys(), ...y.keys()])];
  if (!ids.length) return h("p.soft", null, "Neither has criteria.");
  const score = (c) => (c ? (c.score === null ? "none" : c.score) : undefined);
  const cell = (c) => h("td", { class: c ? c.outcome : "" }, c ? [icon({ passed: "check", failed: "cross" }[c.outcome] || "dash", c.outcome), " ", c.score !== null ? number(Number(c.score), 2) : "no verdict", c.outcome !== "passed" && (c.message || c.actual) ? h("small", null, plain(String(c.message || c.actual).slice(0, 240))) : null] : h("span.soft", null, "not there"));
  const differing = ids.filter((id) => score(x.get(id)) !== score(y.get(id)));
  ids.sort((p, q) => differing.includes(q) - differing.includes(p));
  return h("section", null, h("h2", null, "Criteria ", h("span.soft.small", null, differing.length ? `${differing.length} of ${ids.length} differ` : "all alike")), h("table.plain.compare.criteriatable", null, h("thead", null, h("tr", null, h("th", null, "criterion"), h("th", null, "A"), h("th", null, "B"))), h("tbody", null,
    ids.map((id) => h("tr", { class: differing.includes(id) ? "differs" : "" }, h("th", { scope: "row" }, h("code", null, plain(id)), h("small", null, plain(String((x.get(id) || y.get(id)).description || "").slice(0, 200)))), cell(x.get(id)), cell(y.get(id)))))));
}

function answers(a, b) {
  const [x, y] = [a.outcome.final_answer || "", b.outcome.final_answer || ""], [head, tail] = common(x, y);
  return h("div.sides.scrollsides", null, [["A", x], ["B", y]].map(([name, text]) => {
    const box = h("div.answer", { tabindex: "0" });
    putText(box, text.slice(0, head));
    const middle = h("span.word");
    putText(middle, text.slice(head, text.length - tail));
    box.append(middle);
    putText(box, tail ? text.slice(text.length - tail) : "");
    return h("section.side", null, h("h3", null, name), text ? box : empty("No final answer."));
  }));
}

/** Asks for the trial that is missing: those of the same task come first. */
async function chooser(host, sides, missing, { go, runs, place }) {
  const known = sides.a || sides.b, options = h("div.cards");
  const detail = known ? await ask(`runs/${enc(known.run)}/trials/${enc(known.trial)}`) : null;
  const run = h("select", { "aria-label": "Run", onchange: () => load() }, runs.map((one) => h("option", { value: one.key, selected: known && one.key === known.run }, plain(one.name))));
  const search = h("input", { type: "search", placeholder: "Search its trials", "aria-label": "Search trials to compare with", value: detail ? (detail.spec?.task ?? detail.task) : "", oninput: () => load() });
  async function load() {
    const found = await ask(`runs/${enc(run.value)}/trials`, { q: search.value, limit: 60, facets: 0, sort: "reward" });
    fill(options, found.rows.filter((row) => !known || row.id !== known.trial || run.value !== known.run).map((row) => {
      const query = new URLSearchParams(place.params);
      query.set(missing, `${run.value}:${row.id}`);
      return h("a.card.flat", { href: `#/compare?${query}` }, h("b", null, plain(row.task || row.id), row.sample !== null ? ` #${row.sample}` : ""), h("span.row", null, statusPill(row.status), rewardBar(row.reward), h("span.soft", null, plain([row.policy, row.harness].filter(Boolean).join(" under ")))));
    }));
    if (!options.childElementCount) fill(options, empty("No other trial matches."));
  }
  fill(host, h("div.scroll", null, h("h1", null, known ? "Compare with which trial?" : "Compare two trials: choose the first"), detail ? h("p.soft", null, plain(detail.id)) : null, h("div.toolbar", null, run, h("label.search", null, icon("search"), search)), options));
  await load();
}
