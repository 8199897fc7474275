// A conversation, message by message: what was said, the calls that were made and what came back. Only what is in sight
// exists; a bar beside it shows the whole.

import { ask, debounce, empty, enc, fill, h, icon, number, plain, putText, say, short, words } from "./dom.js";
import { Pages, VirtualList } from "./vlist.js";

const LINE = 20, PAGE = 50;
const NAMES = { system: "System", user: "User", agent: "Model", tool: "Result" };

/** A conversation in an element. Also used by the comparison, twice. */
export class Reader {
  /** @param source {base, attempt, thread}; @param options {compact, onscroll(turn)} */
  constructor(host, source, options = {}) {
    Object.assign(this, { host, source, options, cursor: -1, hits: [], hit: -1, words: "", open: new Set(), closed: new Set(), whole: new Map(), errors: false });
  }

  /** @param given what is there already: {conversation, page} */
  async load(given) {
    const { base, attempt, thread } = this.source;
    const found = given?.conversation || await ask(`${base}/conversation`, { attempt, thread });
    this.about = found.about;
    this.threads = found.threads;
    this.all = found.outline.map(([kind, head, size, turn, tokens, bad, lines], index) => ({ kind, head, size, turn, tokens, bad, lines, index }));
    this.items = this.all;
    this.pages = new Pages(PAGE, async (start, count) => (await ask(`${base}/page`, { attempt, thread, start, count })).items, (start, count) => {
      for (let i = start; i < start + count; i++) { const row = this.rowOf(i); if (row >= 0 && this.list) this.list.refresh(row); }
    });
    this.scroller = h("div.reader", { tabindex: "0", role: "feed", "aria-label": "Conversation", "aria-busy": "false" });
    this.map = h("canvas.map", { "aria-hidden": "true", title: "The whole conversation; click to go there" });
    this.host.append(this.scroller, this.map);
    if (given?.page) this.pages.put(0, given.page.items);
    await this.pages.load(0);
    this.list = new VirtualList(this.scroller, {
      count: this.items.length,
      estimate: (row) => 58 + Math.min(this.items[row].lines, 24) * LINE,
      render: (row) => this.render(row),
      onrange: (first, last) => { if (this.items.length) this.pages.want(this.items[first].index, this.items[last].index); },
    });
    this.scroller.addEventListener("scroll", () => { this.drawMap(); if (this.options.onscroll) this.options.onscroll(this.turn()); }, { passive: true });
    this.map.addEventListener("pointerdown", (event) => this.jump(event));
    this.resized = new ResizeObserver(() => this.drawMap());
    this.resized.observe(this.map);
    this.drawMap();
    return this;
  }

  rowOf(index) { return this.items === this.all ? index : this.items.findIndex((item) => item.index === index); }

  turn() { const item = this.items[this.list.first]; return item ? item.turn : null; }

  // -- one message -----------------------------------------------------------------------------------------------------

  render(row) {
    const about = this.items[row], item = this.pages.get(about.index);
    const element = h("article.msg", { class: `${about.kind}${about.bad ? " bad" : ""}${row === this.cursor ? " cursor" : ""}`, "aria-posinset": row + 1, "aria-setsize": this.items.length, "aria-label": `${NAMES[about.kind]}${about.turn ? `, turn ${about.turn}` : ""}`, dataset: { item: about.index } });
    element.addEventListener("mousedown", () => this.setCursor(row, false));
    const head = h("header.who", null, h("span.role", null, NAMES[about.kind] || about.kind), about.turn ? h("span.turn", null, `turn ${about.turn}`) : null,
      about.tokens ? h("span.soft", null, `${about.tokens.toLocaleString("en")} tokens`) : null,
      item && item.context ? h("span.soft", { title: "tokens in the context behind this turn" }, `${short(item.context)} in context`) : null,
      item && item.finish ? h("span.pill.warn", { title: "why sampling stopped" }, words(item.finish)) : null,
      item && item.kind === "agent" && !item.sampled ? h("span.pill.dim", null, "not sampled") : null,
      item && item.copied ? h("span.pill.dim", null, "copied context") : null,
      h("a.permalink", { href: this.options.link ? this.options.link(about.index) : null, title: "A link to this message", "aria-label": `Link to message ${about.index + 1}` }, `${about.index + 1}`));
    element.append(head);
    if (!item) { element.append(h("p.soft.ghosttext", { style: { minHeight: `${Math.min(about.lines, 24) * LINE}px` } }, plain(about.head))); return element; }
    item.parts.forEach((part, at) => element.append(this.part(about.index, at, part)));
    return element;
  }

  part(index, at, part) {
    if (part.type === "image") return h("figure.image", null, h("img", { src: part.url, alt: "An image in the conversation", loading: "lazy" }));
    if (part.type === "call") return this.call(index, at, part);
    const key = `${index}.${at}`;
    const mono = part.type === "result";
    const box = h(mono ? "pre.text" : "div.text", mono ? { tabindex: "-1" } : null);
    const body = [box];
    this.fillText(box, body, index, at, part);
    if (part.type === "reasoning") return this.fold(key, "Reasoning", part.size, body, "reasoning", false);
    if (part.type === "result") {
      const lines = part.text.split("\n").length;
      return this.fold(key, h("span", null, icon("tool"), h("code", null, plain(part.name || "result")), part.bad ? h("span.pill.bad", null, "error") : null), part.size, body, `result${part.bad ? " bad" : ""}`, lines < 60 || this.words !== "");
    }
    return h("div.said", null, ...body);
  }

  fold(key, name, size, body, kind, openAtFirst) {
    const open = this.open.has(key) || (openAtFirst && !this.closed.has(key));
    return h("details.part", { class: kind, open, ontoggle: (event) => {
      const set = event.target.open ? [this.open, this.closed] : [this.closed, this.open];
      set[0].add(key); set[1].delete(key);
    } }, h("summary", null, name, h("span.soft.size", null, `${size.toLocaleString("en")} characters`)), ...body);
  }

  fillText(box, body, index, at, part) {
    const key = `${index}.${at}`, whole = this.whole.get(key);
    const text = whole === undefined ? part.text : whole;
    putText(box, text, this.words);
    if (text.length < part.size) {
      body.push(h("button.more", { onclick: () => this.more(index, at) }, `Show ${(Math.min(part.size - text.length, 400000)).toLocaleString("en")} more characters`,
        h("span.soft", null, ` of ${part.size.toLocaleString("en")}`)));
    }
  }

  async more(index, at) {
    const key = `${index}.${at}`, { base, attempt, thread } = this.source;
    const have = this.whole.get(key) ?? this.pages.get(index).parts[at].text;
    const piece = await ask(`${base}/part`, { attempt, thread, item: index, part: at, start: have.length });
    // Positions are counted in characters there and in UTF-16 here: what was cut is asked from the start where they differ.
    if (piece.start === have.length && [...have].length === have.length) this.whole.set(key, have + piece.text);
    else this.whole.set(key, (await ask(`${base}/part`, { attempt, thread, item: index, part: at, start: 0 })).text);
    this.list.refresh(this.rowOf(index));
  }

  call(index, at, part) {
    const body = [];
    if (part.error) body.push(h("p.badtext", null, plain(part.error)));
    const args = part.args && !part.error && part.size <= 200000 ? Object.entries(part.args) : null;
    if (args && args.length) {
      body.push(h("dl.args", null, args.map(([name, value]) => {
        const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
        const dd = h(text.includes("\n") || text.length > 90 ? "dd.block" : "dd");
        putText(dd, text, this.words);
        return [h("dt", null, plain(name)), dd];
      })));
    } else if (!args) {
      const box = h("pre.text");
      body.push(box);
      this.fillText(box, body, index, at, part);
    }
    const name = h("code");
    putText(name, part.name, this.words);
    return h("div.part.call", null, h("div.callname", null, icon("tool"), name, part.error ? h("span.pill.bad", null, "can't be parsed") : null), ...body);
  }

  // -- moving ----------------------------------------------------------------------------------------------------------

  setCursor(row, scroll = true, align = "nearest") {
    const before = this.cursor;
    this.cursor = Math.max(0, Math.min(this.items.length - 1, row));
    for (const [r, on] of [[before, false], [this.cursor, true]]) { const element = this.list.drawn.get(r); if (element) element.classList.toggle("cursor", on); }
    if (scroll) {
      this.list.scrollTo(this.cursor, align);
      this.list.drawn.get(this.cursor)?.classList.add("cursor");
      say(`${NAMES[this.items[this.cursor].kind]}, message ${this.items[this.cursor].index + 1}`);
    }
    this.drawMap();
  }

  async goTo(index, align = 0.12) {
    await this.pages.load(Math.floor(index / PAGE));
    if (this.rowOf(index) < 0) this.only(null);
    this.setCursor(this.rowOf(index), true, align);
  }

  toTurn(turn) {
    const row = this.items.findIndex((item) => item.turn >= turn);
    if (row >= 0) this.list.scrollTo(row, 0);
  }

  step(by) { this.setCursor(this.cursor < 0 ? this.list.first : this.cursor + by); }

  stepTo(by, wanted) {
    for (let row = (this.cursor < 0 ? this.list.first - (by > 0 ? 1 : -1) : this.cursor) + by; row >= 0 && row < this.items.length; row += by) {
      if (wanted(this.items[row])) { this.setCursor(row, true, 0.12); return true; }
    }
    say("no further one");
    return false;
  }

  /** Shows some messages alone: a test on the outline, or null for all. */
  only(test) {
    const at = this.items[this.cursor];
    this.items = test ? this.all.filter(test) : this.all;
    this.cursor = at ? this.items.indexOf(at) : -1;
    this.list.reset(this.items.length);
    this.scroller.classList.toggle("none", !this.items.length);
    this.drawMap();
  }

  expand(open) {
    if (open) { this.everything = true; }
    this.open.clear(); this.closed.clear();
    for (const item of this.all) for (let at = 0; at < 40; at++) (open ? this.open : this.closed).add(`${item.index}.${at}`);
    this.list.refresh();
  }

  async search(text) {
    const { base, attempt, thread } = this.source;
    this.words = text.toLowerCase();
    this.hits = text ? (await ask(`${base}/search`, { attempt, thread, q: text })).hits : [];
    this.hit = -1;
    this.list.refresh();
    this.drawMap();
    return this.hits.length;
  }

  async nextHit(by) {
    if (!this.hits.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    const [index, part, at] = this.hits[this.hit];
    await this.goTo(index, 0.2);
    const item = this.pages.get(index);
    if (at >= 0 && item && at + this.words.length > (this.whole.get(`${index}.${part}`) ?? item.parts[part].text).length) await this.more(index, part);
    this.open.add(`${index}.${part}`);
    this.list.refresh(this.rowOf(index));
    this.list.draw();
    const element = this.list.drawn.get(this.rowOf(index));
    const nth = this.hits.slice(0, this.hit).filter(([i, p, a]) => i === index && a >= 0).length;
    const marks = element ? element.querySelectorAll("mark") : [];
    const mark = marks[Math.min(nth, marks.length - 1)];
    if (mark) {
      this.scroller.querySelectorAll("mark.now").forEach((one) => one.classList.remove("now"));
      mark.classList.add("now");
      const a = mark.getBoundingClientRect(), b = this.scroller.getBoundingClientRect();
      if (a.top < b.top + 40 || a.bottom > b.bottom - 40) this.scroller.scrollTop += a.top - b.top - b.height * 0.3;
    }
  }

  // -- the whole at a glance -------------------------------------------------------------------------------------------

  drawMap() {
    const canvas = this.map, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height || !this.list) return;
    const dense = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) { canvas.width = width * dense; canvas.height = height * dense; }
    const context = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    const total = this.list.tops[this.list.count] || 1, scale = Math.min(1, height / total);
    const paint = { system: colour("--map-system"), user: colour("--map-user"), agent: colour("--map-agent"), tool: colour("--map-tool") };
    const bad = colour("--bad"), mark = colour("--mark");
    for (let row = 0; row < this.items.length; row++) {
      const item = this.items[row], y = this.list.tops[row] * scale, tall = Math.max(1, this.list.heights[row] * scale - 0.6);
      context.fillStyle = item.bad ? bad : paint[item.kind] || paint.system;
      context.fillRect(item.kind === "tool" ? 6 : 2, y, width - (item.kind === "tool" ? 10 : 4), tall);
    }
    if (this.hits.length) {
      context.fillStyle = mark;
      for (const [index] of this.hits) { const row = this.rowOf(index); if (row >= 0) context.fillRect(0, this.list.tops[row] * scale, width, 2); }
    }
    context.strokeStyle = colour("--accent");
    context.lineWidth = 1.5;
    const view = Math.max(10, this.scroller.clientHeight * scale);
    context.strokeRect(0.75, this.scroller.scrollTop * scale, width - 1.5, Math.min(view, height - 1.5));
  }

  jump(event) {
    const move = (at) => {
      const total = this.list.tops[this.list.count] || 1, scale = Math.min(1, this.map.clientHeight / total);
      this.scroller.scrollTop = (at.clientY - this.map.getBoundingClientRect().top) / scale - this.scroller.clientHeight / 2;
    };
    move(event);
    this.map.setPointerCapture(event.pointerId);
    this.map.onpointermove = move;
    this.map.onpointerup = () => { this.map.onpointermove = null; };
  }

  close() {
    if (this.list) this.list.close();
    if (this.resized) this.resized.disconnect();
  }
}

export async function readerTab(body, { base, detail, params, go, given, address }) {
  if (!detail.has.conversation) { fill(body, empty("This attempt left no conversation.", detail.outcome.failure ? detail.outcome.failure.message : null)); return {}; }
  const space = h("div.readerspace"), tools = h("div.toolbar");
  fill(body, h("div.conversation", null, tools, space));
  const reader = new Reader(space, { base, attempt: detail.attempt, thread: params.get("thread") }, { link: (index) => address("conversation", { item: index, thread: params.get("thread") }) });
  await reader.load(given);
  const found = h("span.soft.count", { "aria-live": "polite" });
  const showHit = () => { found.textContent = reader.words ? (reader.hits.length ? `${reader.hit + 1} of ${reader.hits.length}${reader.hits.length >= 2000 ? "+" : ""}` : "nothing found") : ""; };
  const next = async (by) => { await reader.nextHit(by); showHit(); };
  const search = h("input", { type: "search", placeholder: "Search the conversation", "aria-label": "Search the conversation",
    oninput: debounce(220, async () => { await reader.search(search.value.trim()); if (reader.hits.length) await next(1); else showHit(); }),
    onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); } } });
  const errors = reader.all.filter((item) => item.bad).length;
  const shown = h("select", { "aria-label": "Which messages", onchange: () => reader.only({ all: null, said: (i) => i.kind !== "tool", bad: (i) => i.bad }[shown.value]) },
    h("option", { value: "all" }, `All ${reader.all.length} messages`), h("option", { value: "said" }, "Without results"), errors ? h("option", { value: "bad" }, `${errors} with errors`) : null);
  const threads = Object.keys(reader.threads || {}).length || params.get("thread")
    ? h("select", { "aria-label": "Thread", onchange: (event) => go(address("conversation", { thread: event.target.value || null })) },
      h("option", { value: "" }, "main thread"), Object.entries(reader.threads || {}).map(([name, count]) => h("option", { value: name }, `${plain(name)} (${count})`)),
      params.get("thread") && !(params.get("thread") in (reader.threads || {})) ? h("option", { value: params.get("thread"), selected: true }, plain(params.get("thread"))) : null) : null;
  const toolNames = h("details.toolsoffered", null, h("summary", null, `${reader.about.tools.length} tools`), h("ul", null, reader.about.tools.map((tool) => h("li", null, h("code", null, plain(tool.name)), " ", plain(tool.description.split("\n")[0].slice(0, 160))))));
  fill(tools, h("label.search", null, icon("search"), search), found,
    h("button.iconbutton", { title: "Hit before (p)", "aria-label": "Hit before", onclick: () => next(-1) }, icon("up")), h("button.iconbutton", { title: "Next hit (n)", "aria-label": "Next hit", onclick: () => next(1) }, icon("down")),
    h("span.grow"), threads, shown, h("button", { title: "Open all parts (e)", onclick: () => reader.expand(true) }, "Expand"), h("button", { title: "Close all parts (E)", onclick: () => reader.expand(false) }, "Collapse"), reader.about.tools.length ? toolNames : null);
  if (params.get("item") !== null && params.get("item") !== undefined) await reader.goTo(Number(params.get("item")) || 0);
  return {
    keys: [
      ["j", "next message", () => reader.step(1)], ["k", "message before", () => reader.step(-1)],
      ["J", "next turn of the model", () => reader.stepTo(1, (i) => i.kind === "agent")], ["K", "turn before", () => reader.stepTo(-1, (i) => i.kind === "agent")],
      ["r", "next error", () => reader.stepTo(1, (i) => i.bad)],
      ["g", "to the start", () => reader.setCursor(0, true, 0)], ["G", "to the end", () => reader.setCursor(reader.items.length - 1, true, 0.5)],
      ["n", "next hit of the search", () => next(1)], ["p", "hit before", () => next(-1)],
      ["e", "open all parts", () => reader.expand(true)], ["E", "close all parts", () => reader.expand(false)],
    ],
    close: () => reader.close(),
    update: (now, before) => {
      if (now.get("thread") !== before.get("thread")) return false;
      if (now.get("item") === null) return now.get("item") === before.get("item");
      reader.goTo(Number(now.get("item")) || 0);
      return true;
    },
  };
}
