// A trace, token by token: what was shown, sampled and masked, with logprob, gap and version. Nodes are blocks, tokens of
// a block flow in lines; only what is in sight exists.

import { ask, empty, fill, h, number, plain, say, short, tile, words } from "./dom.js";
import { Pages, VirtualList } from "./vlist.js";

const CHUNK = 160, PAGE = 2048;
const KIND = ["shown", "trains", "masked"];
const KIND_NAMES = ["shown to the model", "sampled, trains", "sampled, masked"];
const VERSIONS = 6;

export async function tokensTab(body, { base, detail, params, given }) {
  if (!detail.has.tokens) { fill(body, empty("This attempt left no token trace.", "The token policy and training leave one; the chat, oracle and replay policies don't.")); return {}; }
  const about = given?.tokens || await ask(`${base}/tokens`, { attempt: detail.attempt });
  let by = "kind", cursor = -1, extremes = null, nth = -1, only = null;
  const rows = [];
  const layout = () => {
    rows.length = 0;
    for (const node of about.nodes) {
      if (only && !only(node)) continue;
      rows.push({ node });
      for (let at = 0; at < node.count; at += CHUNK) rows.push({ node, start: node.start + at, count: Math.min(CHUNK, node.count - at) });
    }
  };
  layout();
  const scroller = h("div.tokenscroll", { tabindex: "0", role: "group", "aria-label": "Tokens; arrow keys go from one to the next" }), inspector = h("aside.inspector", { "aria-live": "polite", "aria-label": "The token chosen" });
  const tokensOf = (found) => {
    const special = new Set(found.special);
    return found.ids.map((id, n) => ({
      id, text: found.texts ? found.texts[n] : null, special: special.has(n), kind: found.kinds[n], logprob: found.logprobs[n], version: found.versions[n], gap: found.gaps ? found.gaps[n] : null, at: found.start + n,
    }));
  };
  const pages = new Pages(PAGE, async (start, count) => {
    return tokensOf(await ask(`${base}/stretch`, { attempt: detail.attempt, start, count }));
  }, (start, count) => {
    for (const [index] of [...list.drawn]) { const row = rows[index]; if (row.start !== undefined && row.start < start + count && row.start + row.count > start) list.refresh(index); }
    if (cursor >= start && cursor < start + count) inspect();
  });
  if (given?.stretch) pages.put(given.stretch.start / PAGE, tokensOf(given.stretch));

  const levels = { logprob: (t) => (t.logprob === null ? null : Math.min(6, Math.floor(-t.logprob * 1.6 + (t.logprob < -0.02 ? 1 : 0)))), gap: (t) => (t.gap === null ? null : Math.min(6, Math.floor(Math.log2(1 + Math.abs(t.gap) * 200)))), version: (t) => (t.version < 0 ? null : t.version % VERSIONS) };

  const shown = new Map(); // by text: a trace says the same words over and over
  const textOf = (text) => {
    let found = shown.get(text);
    if (found === undefined) shown.set(text, found = plain(text.replaceAll("\r", "␍").replaceAll("\n", "⏎").replaceAll("\t", "⇥")) || "∅");
    return found;
  };

  // Thousands of these are made for each window: no more is done for one than must be.
  function token(t) {
    const element = document.createElement("span");
    let kind = `tok ${KIND[t.kind]}${t.special ? " special" : ""}${t.at === cursor ? " now" : ""}`;
    if (by !== "kind") { const level = levels[by](t); kind += level === null ? " off" : ` ${by === "version" ? "v" : "l"}${level}`; }
    element.className = kind;
    element.setAttribute("data-at", t.at);
    if (t.text === null || t.text === undefined) element.append(h("span.id", null, t.id));
    else element.textContent = textOf(t.text);
    return element;
  }

  function render(index) {
    const row = rows[index];
    if (row.start === undefined) return nodeHead(row.node);
    const element = h("div.tokens", { class: `${about.texts ? "" : "ids"}${row.start === row.node.start ? " first" : ""}${row.start + row.count === row.node.start + row.node.count ? " last" : ""}` });
    pages.want(row.start, row.start + row.count - 1);
    let ready = 0;
    for (let at = row.start; at < row.start + row.count; at++) {
      const t = pages.get(at);
      if (!t) continue;
      ready += 1;
      element.append(token(t));
      if (about.texts && t.text && t.text.endsWith("\n")) element.append(h("br"));
    }
    if (!ready) element.append(h("span.ghosttext.soft", { style: { minHeight: "60px" } }, "…"));
    return element;
  }

  function nodeHead(node) {
    return h("header.node", { class: node.sampled ? "sampled" : "context", dataset: { node: node.index } },
      h("b", null, `#${node.index}`), h("span.pill", { class: node.sampled ? "good" : "dim" }, node.sampled ? "sampled" : node.roles.length ? plain([...new Set(node.roles)].join(", ")) : "context"),
      node.edge !== "append" ? h("span.pill.warn", { title: plain(node.note || "") }, words(node.edge)) : null, node.thread !== "main" ? h("span.pill.info", null, plain(node.thread)) : null,
      h("span.soft", null, `${node.count.toLocaleString("en")} tokens at ${node.path.toLocaleString("en")}`),
      node.sampled ? [
        node.trains < node.count ? h("span.pill.bad", null, node.trains ? `${node.count - node.trains} masked` : "masked") : null,
        node.finish && node.finish !== "stop" ? h("span.pill.warn", null, words(node.finish)) : null,
        node.logprob !== undefined ? h("span.soft", null, `logprob ${number(node.logprob, 3)}`) : null,
        node.gap !== null && node.gap !== undefined ? h("span.soft", null, `gap ${number(node.gap, 4)}`) : null,
        node.versions ? h("span.soft", null, node.versions[0] === node.versions[1] ? `version ${node.versions[0]}` : `versions ${node.versions.join("–")}`) : null,
        node.attempts > 1 ? h("span.pill.warn", null, `${node.attempts} requests`) : null,
      ] : null,
      h("span.grow"), h("span.soft.headtext", null, plain(node.head)));
  }

  function inspect() {
    if (cursor < 0) { fill(inspector, h("p.soft", null, "Choose a token to see what is known of it.")); return; }
    const t = pages.get(cursor);
    if (!t) { pages.want(cursor, cursor); return; }
    const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
    fill(inspector, h("h3", null, t.text === null ? `token ${t.id}` : h("code", null, plain(JSON.stringify(t.text)))), h("dl.facts.stack", null,
      fact("id", t.id), fact("position", t.at.toLocaleString("en")), fact("", KIND_NAMES[t.kind]),
      t.logprob !== null ? [fact("logprob", t.logprob.toFixed(4)), fact("probability", `${(100 * Math.exp(t.logprob)).toFixed(2)} %`)] : null,
      t.gap !== null ? [fact("gap", t.gap.toFixed(5)), fact("trainer's logprob", (t.logprob + t.gap).toFixed(4))] : t.logprob !== null ? fact("gap", "not scored") : null,
      t.version >= 0 ? fact("policy version", t.version) : null));
  }

  const list = new VirtualList(scroller, { count: rows.length, estimate: (i) => (rows[i].start === undefined ? 38 : about.texts ? 26 + Math.ceil(rows[i].count * 4.6 / 120) * 23 : 26 + Math.ceil(rows[i].count / 16) * 25), render });

  const rowOf = (at) => { let low = 0, high = rows.length - 1; while (low < high) { const m = (low + high + 1) >> 1; const start = rows[m].start ?? rows[m].node.start; if (start <= at && !(rows[m].start === undefined && start > at)) low = m; else high = m - 1; } return low; };

  async function choose(at, align) {
    if (!about.total) return;
    const before = cursor;
    cursor = Math.max(0, Math.min(about.total - 1, at));
    await pages.load(Math.floor(cursor / PAGE));
    if (only) { only = null; layout(); list.reset(rows.length); drawTools(); }
    for (const one of [before, cursor]) if (one >= 0) list.refresh(rowOf(one));
    list.scrollTo(rowOf(cursor), align ?? "nearest");
    inspect();
    scroller.querySelector(".tok.now")?.scrollIntoView({ block: "nearest" });
  }

  scroller.addEventListener("click", (event) => { const t = event.target.closest(".tok"); if (t) choose(Number(t.dataset.at)); });
  scroller.addEventListener("mouseover", (event) => {
    const t = event.target.closest(".tok");
    if (!t || t.title) return;
    const token = pages.get(Number(t.dataset.at));
    if (token) t.title = [`id ${token.id}`, KIND_NAMES[token.kind], token.logprob !== null ? `logprob ${token.logprob}` : null, token.gap !== null ? `gap ${token.gap}` : null, token.version >= 0 ? `version ${token.version}` : null].filter(Boolean).join("\n");
  });

  async function worst(what, by_) {
    if (!extremes || extremes.what !== what) { extremes = { what, at: (await ask(`${base}/stretch`, { attempt: detail.attempt, extremes: what })).positions }; nth = -1; }
    if (!extremes.at.length) { say("no such token"); return; }
    nth = (nth + by_ + extremes.at.length) % extremes.at.length;
    await choose(extremes.at[nth], 0.3);
    say(`${what}, ${nth + 1} of ${extremes.at.length}`);
  }

  const tools = h("div.toolbar"), legend = h("div.legend");
  function drawTools() {
    const modes = [["kind", "Kind"], ["logprob", "Logprob"], ...(about.gap ? [["gap", "Gap"]] : []), ["version", "Version"]];
    fill(tools, h("span.soft", null, "Colour by"), h("div.choice", { role: "group", "aria-label": "Colour by" }, modes.map(([key, name]) => h("button", { "aria-pressed": String(by === key), onclick: () => { by = key; drawTools(); list.refresh(); } }, name))), legend, h("span.grow"),
      h("select", { "aria-label": "Which nodes", onchange: (event) => { only = { all: null, sampled: (n) => n.sampled, masked: (n) => n.sampled && n.trains < n.count }[event.target.value]; layout(); list.reset(rows.length); } },
        h("option", { value: "all" }, `All ${about.nodes.length.toLocaleString("en")} nodes`), h("option", { value: "sampled" }, "Sampled ones"), about.trains < about.sampled ? h("option", { value: "masked" }, "With masked tokens") : null),
      h("button", { title: "Next of the least likely tokens (l)", onclick: () => worst("logprob", 1) }, "Least likely"), about.gap ? h("button", { title: "Next of the largest gaps (g)", onclick: () => worst("gap", 1) }, "Largest gap") : null);
    const items = { kind: KIND.map((k, n) => [`tok ${k}`, KIND_NAMES[n]]), logprob: [["tok l0", "certain"], ["tok l3", "unsure"], ["tok l6", "unlikely"]], gap: [["tok l0", "none"], ["tok l3", "0.04"], ["tok l6", "0.3 and more"]],
      version: about.versions ? [[`tok v${about.versions[0] % VERSIONS}`, `version ${about.versions[0]}`], ...(about.versions[1] !== about.versions[0] ? [[`tok v${about.versions[1] % VERSIONS}`, `version ${about.versions[1]}`]] : [])] : [] }[by];
    fill(legend, items.map(([kind, name]) => h("span.key", null, h("span", { class: `${kind} swatch`, "aria-hidden": "true" }), name)));
  }
  const dropped = Object.entries(about.dropped || {});
  fill(body, h("div.tokenview", null,
    h("div.tiles", null, tile(short(about.total), "tokens"), tile(short(about.sampled), `sampled, ${short(about.trains)} train`), tile(about.sampled - about.trains ? short(about.sampled - about.trains) : "0", dropped.length ? `masked: ${dropped.map(([why, n]) => `${n} ${words(why)}`).join(", ")}` : "masked", about.sampled - about.trains ? "warn" : ""),
      tile(number(about.logprob, 3), "logprob, mean"), about.gap ? tile(about.gap.mean.toFixed(4), `gap, mean; largest ${about.gap.largest.toFixed(3)}`, about.gap.mean > 0.03 ? "bad" : "") : null,
      about.versions ? tile(about.versions[0] === about.versions[1] ? String(about.versions[0]) : about.versions.join("–"), "policy version") : null, tile(short(about.samples), about.samples === 1 ? "training sample" : "training samples")),
    about.notes.map((note) => h("p.note", null, plain(note))), tools, h("div.tokenspace", null, scroller, inspector)));
  drawTools();
  inspect();
  list.draw();
  const node = params.get("at");
  if (node !== null && node !== undefined) choose(Number(node) || 0, 0.2);
  const step = (by_) => choose(cursor < 0 ? (rows[list.first]?.start ?? rows[list.first]?.node.start ?? 0) : cursor + by_);
  const stepNode = (by_) => {
    let row = cursor < 0 ? list.first : rowOf(cursor);
    const from = rows[row].node;
    for (row += by_; row >= 0 && row < rows.length; row += by_) if (rows[row].node !== from && rows[row].start === undefined && (!only || only(rows[row].node))) { choose(rows[row].node.start, 0.1); return; }
  };
  return {
    keys: [["ArrowRight", "next token", () => step(1)], ["ArrowLeft", "token before", () => step(-1)], ["j", "next node", () => stepNode(1)], ["k", "node before", () => stepNode(-1)],
      ["l", "next of the least likely", () => worst("logprob", 1)], ["g", "next of the largest gaps", () => about.gap && worst("gap", 1)]],
    close: () => list.close(),
  };
}
