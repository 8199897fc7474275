// Files before and after, side by side: cells in a grid, lines of texts, pages and pictures; what `envkit diff` finds is
// marked in both and listed.

import { ask, bytes, debounce, empty, fill, h, icon, failed, plain, putText, say } from "./dom.js";
import { VirtualList } from "./vlist.js";

/** What names a file in an address, where a path that is no text can't stand. */
const named = (file) => file.key || file.path;

const SIGN = { added: "+", removed: "−", changed: "~", moved: ">", unreadable: "!" };

export async function filesTab(body, { base, detail, params, go, address }) {
  if (!detail.has.files) { fill(body, empty("This attempt kept no files.", "Artifacts are kept unless a run says otherwise (keep_artifacts), and only where a final state was reached.")); return {}; }
  const state = params.get("state") || "";
  const listing = await ask(`${base}/files`, { attempt: detail.attempt, state });
  const files = listing.files.filter((file) => file.type !== "folder");
  if (!files.length) { fill(body, empty("Nothing changed: the agent left every file as it was.")); return {}; }
  let current = null, view = null, asking = null, words = "";
  const tree = h("div.filelist", { role: "listbox", "aria-label": "Files that changed", tabindex: "0" }), space = h("div.filespace");
  const find = files.length > 14 ? h("input.small", { type: "text", placeholder: "Find a file", "aria-label": "Find a file", oninput: (event) => { words = event.target.value.toLowerCase(); drawTree(); } }) : null;
  const steps = listing.states.length > 1 ? h("select", { "aria-label": "State", onchange: (event) => go(address("files", { state: event.target.value || null })) }, listing.states.map((one) => h("option", { value: one.key, selected: one.key === state }, plain(one.name)))) : null;
  fill(body, h("div.files", null, h("aside.fileside", null, h("div.row", null, h("h2", null, `${listing.count.toLocaleString("en")} changed`), steps), find, tree), space));

  function drawTree() {
    let folder = null;
    fill(tree, files.filter((file) => file.path.toLowerCase().includes(words)).slice(0, 2000).map((file) => {
      const cut = file.path.lastIndexOf("/"), where = file.path.slice(0, cut), name = file.path.slice(cut + 1);
      const rows = [];
      if (where !== folder) { folder = where; rows.push(h("div.folder", { role: "presentation" }, plain(where))); }
      rows.push(h("div.fileitem", { role: "option", "aria-selected": String(current === file), class: file.change, title: file.path, onclick: () => open(file) },
        h("span.sign", { "aria-label": file.change }, SIGN[file.change] || "~"), h("span.name", null, plain(name)), h("span.soft.n", null, bytes(file.size))));
      return rows;
    }));
  }

  async function open(file, where) {
    current = file;
    if (asking) asking.abort();
    asking = new AbortController();
    if (view && view.close) view.close();
    view = null;
    drawTree();
    tree.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    history.replaceState(null, "", address("files", { file: named(file), where: where || null }));
    fill(space, h("p.empty.soft", null, "Reading and comparing…"));
    try {
      const found = await ask(`${base}/file`, { attempt: detail.attempt, state, path: named(file) }, asking.signal);
      view = new FileView(space, file, found, (side) => `api/${base}/raw?${new URLSearchParams({ attempt: detail.attempt, state, path: named(file), side })}`);
      view.draw();
      if (where) view.seek(where);
      say(`${file.path}: ${found.findings.length} differences`);
    } catch (error) {
      if (error.name !== "AbortError") fill(space, failed(error));
    }
  }

  const choose = (asked) => {
    const wanted = (asked || "").replace(/^\//, "");
    return files.find((f) => f.key && f.key === asked) || files.find((f) => f.path === wanted) || files.find((f) => f.path === `filesystem/${wanted}`) || files.find((f) => wanted && f.path.endsWith(`/${wanted}`));
  };
  drawTree();
  const asked = choose(params.get("file"));
  if (params.get("file") && !asked) fill(space, empty("That file did not change.", params.get("file")));
  else open(asked || files[0], asked ? params.get("where") : null);
  const step = (by) => { const at = files.indexOf(current) + by; if (files[at]) open(files[at]); };
  return {
    keys: [["j ArrowDown", "next file", (event) => { if (event.key === "ArrowDown" && event.target !== tree) return false; step(1); return true; }],
      ["k ArrowUp", "file before", (event) => { if (event.key === "ArrowUp" && event.target !== tree) return false; step(-1); return true; }],
      ["n", "next difference", () => view && view.step(1)], ["p", "difference before", () => view && view.step(-1)]],
    close: () => { if (asking) asking.abort(); if (view && view.close) view.close(); },
  };
}

/** An address inside a file, taken apart: {sheet, row, column} for cells, null otherwise. */
export function cellOf(where) {
  const found = /^(?:'?(.*?)'?!)?\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?$/.exec(String(where || "").trim());
  if (!found) return null;
  const column = (letters) => [...letters].reduce((n, c) => n * 26 + c.charCodeAt(0) - 64, 0);
  const row = Number(found[3]), col = column(found[2]);
  return { sheet: (found[1] || "").replaceAll("''", "'"), row, column: col, row2: found[5] ? Number(found[5]) : row, column2: found[4] ? column(found[4]) : col };
}

export function letters(column) {
  let out = "";
  for (let n = column; n > 0; n = Math.floor((n - 1) / 26)) out = String.fromCharCode(65 + ((n - 1) % 26)) + out;
  return out;
}

class FileView {
  constructor(host, file, found, raw) {
    Object.assign(this, { host, file, found, raw, at: -1, lists: [], derived: true });
    this.findings = found.findings.map((finding, index) => ({ ...finding, index, derived: String(finding.kind).endsWith(".derived") }));
  }

  draw() {
    const { file, found } = this;
    const sides = [["before", "Before"], ["after", "After"]];
    this.panes = h("div.sides");
    this.list = h("div.findings", { role: "list", "aria-label": "Differences" });
    fill(this.host,
      h("header.filehead", null, h("h2", null, plain(file.path)), h("span.grow"),
        sides.map(([side, name]) => (found[side] || (side === "before" ? file.change !== "added" : file.change !== "removed")) ? h("a.button.small", { href: this.raw(side), download: "" }, icon("save"), name) : null)),
      found.notes.map((note) => h("p.note", null, plain(note))), this.panes,
      this.findings.length ? h("section.findingpane", null, h("div.row", null, h("h3", null, `${(found.count || this.findings.length).toLocaleString("en")} difference${this.findings.length === 1 ? "" : "s"}`),
        this.findings.some((f) => f.derived) ? h("label.option", null, h("input", { type: "checkbox", checked: this.derived, onchange: (event) => { this.derived = event.target.checked; this.drawFindings(); } }), "with what follows from others") : null), this.list) : null);
    this.content();
    this.drawFindings();
  }

  drawFindings() {
    const shown = this.findings.filter((f) => this.derived || !f.derived).slice(0, 1500);
    fill(this.list, shown.map((f) => {
      const before = h("span.b"), after = h("span.a");
      if (f.before !== null && f.before !== undefined) putText(before, f.before);
      if (f.after !== null && f.after !== undefined) putText(after, f.after);
      return h("div.finding", { role: "listitem", class: `${f.change}${f.derived ? " derived" : ""}`, dataset: { finding: f.index } },
        h("button.go", { onclick: () => this.choose(f.index) }, h("span.sign", { "aria-label": f.change }, SIGN[f.change] || "~"), h("span.place", null, plain(f.where), f.to ? ` → ${plain(f.to)}` : ""), h("span.kind", null, plain(f.kind))),
        h("span.change", null, before, f.before !== undefined && f.after !== undefined && f.before !== null && f.after !== null ? h("span.soft", { "aria-hidden": "true" }, " → ") : null, after, f.message ? h("small", null, plain(f.message)) : null));
    }));
  }

  content() {
    const { before, after } = this.found;
    const kinds = [before, after].filter(Boolean).map((side) => side.kind);
    if (!kinds.length) { fill(this.panes, empty("There is nothing to show of this file.")); return; }
    if (kinds.includes("grid")) this.grids(before, after);
    else if (kinds.includes("lines")) this.lines(before, after);
    else fill(this.panes, [before, after].map((side, at) => this.side(at ? "After" : "Before", this.picture(side, at))));
  }

  side(name, ...children) { return h("section.side", { "aria-label": name }, h("h3", null, name), ...children); }

  picture(side, at) {
    if (!side) return empty(at ? "It was removed." : "It was not there before.");
    if (side.kind === "picture") return h("figure.image", null, h("img", { src: side.url, alt: `The picture ${at ? "after" : "before"}` }), h("figcaption.soft", null, `${plain(side.about)}, ${bytes(side.size)}`));
    return empty("It can't be shown.", `${side.why || ""} (${bytes(side.size)})`);
  }

  // -- cells -----------------------------------------------------------------------------------------------------------

  grids(before, after) {
    const names = [];
    for (const side of [after, before]) for (const sheet of (side && side.sheets) || []) if (!names.some((n) => n === sheet.name)) names.push(sheet.name);
    const marks = { before: new Map(), after: new Map() }, perSheet = new Map();
    const put = (which, cell, finding) => {
      if (!cell) return;
      for (let r = cell.row; r <= Math.min(cell.row2, cell.row + 400); r++) for (let c = cell.column; c <= Math.min(cell.column2, cell.column + 100); c++) {
        const key = `${cell.sheet}!${r},${c}`, old = marks[which].get(key);
        if (!old || (old.derived && !finding.derived)) marks[which].set(key, finding);
      }
    };
    for (const f of this.findings) {
      const cell = cellOf(f.where) || this.rowCell(f.where);
      if (!cell) continue;
      f.cell = cell;
      perSheet.set(cell.sheet, (perSheet.get(cell.sheet) || 0) + 1);
      if (f.change !== "added") put("before", cell, f);
      if (f.change !== "removed") put("after", f.to ? cellOf(f.to) || cell : cell, f);
    }
    const firstMarked = names.find((name) => perSheet.get(name)) ?? names[0];
    const tabs = h("div.sheets", { role: "tablist", "aria-label": "Sheets" });
    const grids = h("div.sides.inner");
    const show = (name) => {
      this.sheet = name;
      this.closeLists();
      fill(tabs, names.length > 1 || names[0] ? names.map((one) => {
        const sheet = [after, before].map((side) => ((side && side.sheets) || []).find((s) => s.name === one)).find(Boolean);
        return h("button.sheet", { role: "tab", "aria-selected": String(one === name), onclick: () => show(one) }, plain(one || "table"), sheet.state ? h("span.soft", null, ` (${plain(sheet.state)})`) : null, perSheet.get(one) ? h("span.badge", null, perSheet.get(one)) : null);
      }) : null);
      fill(grids, ["before", "after"].map((which) => this.grid(which, { before, after }[which], name, marks[which])));
      this.sync(grids.querySelectorAll(".gridscroll"));
    };
    this.show = show;
    fill(this.panes, h("div.gridspace", null, tabs, grids));
    show(firstMarked);
  }

  rowCell(where) {
    const found = /^row (\d+)(?:.*?\bcolumn (\d+))?/.exec(String(where || ""));
    return found ? { sheet: "", row: Number(found[1]), row2: Number(found[1]), column: Number(found[2] || 1), column2: Number(found[2] || 60) } : null;
  }

  grid(which, side, name, marks) {
    const label = which === "before" ? "Before" : "After";
    if (!side) return this.side(label, empty(which === "before" ? "The file was not there before." : "The file was removed."));
    if (side.kind !== "grid") return this.side(label, this.picture(side, which === "after"));
    const sheet = side.sheets.find((one) => one.name === name);
    if (!sheet) return this.side(label, empty(which === "before" ? "The sheet was not there before." : "The sheet was removed."));
    const rows = new Map();
    let height = 0, width = 1;
    for (const [r, c, value, formula] of sheet.cells) {
      if (!rows.has(r)) rows.set(r, new Map());
      rows.get(r).set(c, [value, formula]);
      height = Math.max(height, r);
      width = Math.max(width, c);
    }
    width = Math.min(width, 120);
    const scroll = h("div.gridscroll", { tabindex: "0", "aria-label": `${label}, sheet ${plain(name || "table")}` });
    const widths = Array.from({ length: width }, (_, c) => {
      let most = 5;
      for (const [r, cells] of rows) { if (r > 300) break; const cell = cells.get(c + 1); if (cell) most = Math.max(most, Math.min(34, cell[0].length + 2)); }
      return most * 7.4 + 14;
    });
    const template = `44px ${widths.map((w) => `${Math.round(w)}px`).join(" ")}`, total = 44 + widths.reduce((a, b) => a + Math.round(b), 0);
    const head = h("div.cells.headrow", { style: { gridTemplateColumns: template, width: `${total}px` } }, h("span.corner"), widths.map((_, c) => h("span", null, letters(c + 1))));
    scroll.append(head);
    const list = new VirtualList(scroll, {
      fixed: true, count: height, estimate: () => 27,
      render: (index) => {
        const cells = rows.get(index + 1);
        const row = h("div.cells", { style: { gridTemplateColumns: template, width: `${total}px` } }, h("span.rowhead", null, index + 1));
        for (let c = 1; c <= width; c++) {
          const [value, formula] = (cells && cells.get(c)) || ["", null];
          const finding = marks.get(`${name}!${index + 1},${c}`);
          const numeric = value !== "" && !Number.isNaN(Number(value));
          const cell = h("span.cell", { title: finding || formula ? plain([formula, finding && `${finding.kind}: ${finding.before ?? "nothing"} → ${finding.after ?? "nothing"}`].filter(Boolean).join("\n")) : null, class: `${numeric ? "numeric" : ""}${formula ? " formula" : ""}${finding ? ` hit ${finding.change}${finding.derived ? " derived" : ""}${finding.index === this.at ? " now" : ""}` : ""}` });
          putText(cell, value.slice(0, 200));
          if (finding) cell.addEventListener("click", () => this.choose(finding.index, false));
          row.append(cell);
        }
        return row;
      },
    });
    list.inner.style.width = `${total}px`;
    this.lists.push(list);
    scroll.list = list;
    scroll.widths = widths;
    return this.side(label, scroll, sheet.more ? h("p.note", null, `${sheet.more.toLocaleString("en")} further cells are not shown`) : null);
  }

  // -- lines -----------------------------------------------------------------------------------------------------------

  lines(before, after) {
    const rows = this.found.rows || [], left = (before && before.lines) || [], right = (after && after.lines) || [];
    const byText = { before: new Map(), after: new Map() };
    for (const f of this.findings) {
      for (const which of ["before", "after"]) if (typeof f[which] === "string" && f[which].trim()) byText[which].set(f[which].trim().replace(/… \(\d+ characters\)$/, ""), f);
    }
    const findingOf = (which, text) => {
      const value = text.trim();
      const exact = byText[which].get(value);
      if (exact || value.length < 400) return exact;
      for (const [key, f] of byText[which]) if (key.length > 300 && value.startsWith(key.slice(0, 370))) return f;
      return undefined;
    };
    this.rows = rows.map(([i, j, tag]) => {
      const b = i === null ? null : left[i], a = j === null ? null : right[j];
      const finding = tag === "same" ? undefined : (b && findingOf("before", b[1])) || (a && findingOf("after", a[1]));
      return { b, a, tag, finding: finding ? finding.index : null, i, j };
    });
    const changed = this.rows.filter((row) => row.tag !== "same").length;
    let folded = this.rows.length > 400 && changed > 0, visible = [];
    const scroll = h("div.linescroll", { tabindex: "0", "aria-label": "Both versions, line by line" });
    const choose = () => {
      visible = this.rows;
      if (folded) {
        const near = new Uint8Array(this.rows.length);
        this.rows.forEach((row, at) => { if (row.tag !== "same") for (let k = Math.max(0, at - 3); k <= Math.min(near.length - 1, at + 3); k++) near[k] = 1; });
        visible = [];
        let gap = 0;
        this.rows.forEach((row, at) => {
          if (near[at]) { if (gap) visible.push({ gap }); gap = 0; visible.push(row); } else gap += 1;
        });
        if (gap) visible.push({ gap });
      }
      this.visible = visible;
    };
    choose();
    const list = new VirtualList(scroll, { count: visible.length, estimate: () => 30, render: (index) => this.line(visible[index]) });
    this.lists.push(list);
    this.lineList = list;
    const toggle = this.rows.length > 40 && changed ? h("button.small", { onclick: () => { folded = !folded; choose(); list.reset(visible.length); toggle.textContent = folded ? "Show all lines" : "Only what changed"; } }, folded ? "Show all lines" : "Only what changed") : null;
    this.unfold = () => { if (folded) toggle.click(); };
    const names = [before ? `Before · ${bytes(before.size)}` : "Before: not there", after ? `After · ${bytes(after.size)}` : "After: removed"];
    const unreadable = [before, after].map((side, at) => (side && side.kind !== "lines" ? this.side(at ? "After" : "Before", this.picture(side, at)) : null));
    const more = ((before && before.more) || 0) + ((after && after.more) || 0);
    const text = h("div.linespace", null, h("div.linehead", null, h("h3", null, names[0]), h("h3", null, names[1], toggle)), unreadable.some(Boolean) ? h("div.sides.inner", null, unreadable) : null, scroll, more ? h("p.note", null, `${more.toLocaleString("en")} further lines are not shown`) : null);
    const pages = [before, after].some((side) => side && side.pages && side.pages.length);
    if (!pages) { fill(this.panes, text); return; }
    const pictures = h("div.sides.inner.pages", { hidden: true }, [before, after].map((side, at) => this.side(at ? "After" : "Before", side && side.pages ? h("div.pagescroll", { tabindex: "0" }, side.pages.map((url, n) => h("img", { src: url, alt: `Page ${n + 1}`, loading: "lazy" }))) : empty(at ? "It was removed." : "It was not there before."))));
    const pick = h("div.choice", { role: "group", "aria-label": "How it is shown" });
    const set = (page) => {
      pictures.hidden = !page; text.hidden = page;
      fill(pick, h("button", { "aria-pressed": String(!page), onclick: () => set(false) }, "Text"), h("button", { "aria-pressed": String(page), onclick: () => set(true) }, "Pages"));
    };
    fill(this.panes, h("div.linespace", null, pick, text, pictures));
    set(false);
  }

  line(row) {
    if (row.gap) return h("div.linerow.gap", null, `${row.gap.toLocaleString("en")} lines alike`);
    const { b, a, tag } = row;
    const cells = [h("div.l", { class: b ? b[0] : "nothing" }), h("div.r", { class: a ? a[0] : "nothing" })];
    if (tag === "changed" && b && a) {
      const [head, tail] = common(b[1], a[1]);
      for (const [cell, text] of [[cells[0], b[1]], [cells[1], a[1]]]) {
        putText(cell, text.slice(0, head));
        const middle = h("span.word");
        putText(middle, text.slice(head, text.length - tail));
        cell.append(middle);
        putText(cell, tail ? text.slice(text.length - tail) : "");
      }
    } else {
      if (b) putText(cells[0], b[1]);
      if (a) putText(cells[1], a[1]);
    }
    return h("div.linerow", { class: `${tag}${row.finding !== null && row.finding === this.at ? " now" : ""}`, onclick: row.finding === null ? null : () => this.choose(row.finding, false) }, cells);
  }

  // -- moving ----------------------------------------------------------------------------------------------------------

  sync(scrollers) {
    let leading = null;
    for (const one of scrollers) {
      one.addEventListener("scroll", () => {
        if (leading && leading !== one) return;
        leading = one;
        for (const other of scrollers) if (other !== one) { other.scrollTop = one.scrollTop; other.scrollLeft = one.scrollLeft; }
        clearTimeout(this.leading);
        this.leading = setTimeout(() => { leading = null; }, 120);
      }, { passive: true });
    }
  }

  choose(index, scroll = true) {
    this.at = index;
    const finding = this.findings[index];
    for (const element of this.list.children) element.classList.toggle("now", Number(element.dataset.finding) === index);
    this.list.querySelector(".now")?.scrollIntoView({ block: "nearest" });
    if (finding.cell && this.show) {
      if (this.sheet !== finding.cell.sheet) this.show(finding.cell.sheet);
      for (const list of this.lists) {
        list.refresh();
        if (!scroll) continue;
        list.scrollTo(finding.cell.row - 1, 0.3);
        const widths = list.scroller.widths || [], x = widths.slice(0, finding.cell.column - 1).reduce((a, b) => a + b, 0);
        if (x < list.scroller.scrollLeft || x > list.scroller.scrollLeft + list.scroller.clientWidth - 160) list.scroller.scrollLeft = Math.max(0, x - 80);
      }
    } else if (this.lineList) {
      let row = this.visible.findIndex((one) => one.finding === index);
      if (row < 0 && finding) {
        const wanted = String(finding.after ?? finding.before ?? "").trim().slice(0, 120);
        row = wanted ? this.visible.findIndex((one) => one.tag !== "same" && !one.gap && [one.b, one.a].some((side) => side && side[1].includes(wanted))) : -1;
        if (row >= 0) this.visible[row].finding = index;
      }
      this.lineList.refresh();
      if (row >= 0 && scroll) this.lineList.scrollTo(row, 0.3);
    }
    say(`${finding.kind} at ${finding.where}`);
  }

  step(by) {
    const shown = this.findings.filter((f) => this.derived || !f.derived);
    if (!shown.length) return;
    const at = shown.findIndex((f) => f.index === this.at);
    this.choose(shown[(at + by + shown.length) % shown.length].index);
  }

  /** Goes to a place that a criterion names. */
  seek(where) {
    const finding = this.findings.find((f) => f.where === where || f.to === where) || this.findings.find((f) => f.where.includes(where) || where.includes(f.where));
    if (finding) { this.choose(finding.index); return; }
    const cell = cellOf(where);
    if (cell && this.show) {
      const known = (this.found.after || this.found.before).sheets.find((s) => s.name === cell.sheet);
      if (known) this.show(cell.sheet);
      for (const list of this.lists) list.scrollTo(cell.row - 1, 0.3);
    }
  }

  closeLists() { for (const list of this.lists) list.close(); this.lists = []; }
  close() { this.closeLists(); clearTimeout(this.leading); }
}

const WORD = /[\p{L}\p{N}.,]/u;

/** How many characters two texts share at their start and at their end; words and figures are never cut. */
export function common(a, b) {
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  if (head < a.length || head < b.length) {
    while (head > 0 && WORD.test(a[head - 1]) && (WORD.test(a[head] || "") || WORD.test(b[head] || ""))) head--;
  }
  let tail = 0;
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  while (tail > 0 && WORD.test(a[a.length - tail]) && (WORD.test(a[a.length - tail - 1] || "") || WORD.test(b[b.length - tail - 1] || ""))) tail--;
  return [head, tail];
}
