// Elements, texts and requests. Whatever comes from a run enters the page as text nodes only: there is no innerHTML here
// or anywhere else in the viewer.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("div.card.big", {title: "x", onclick: f}, "text", child, [more]). */
export function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "class") element.className += ` ${value}`;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

const ICONS = {
  search: "M7 12a5 5 0 1 1 0-10 5 5 0 0 1 0 10zm3.6-1.4L14 14",
  moon: "M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  left: "M10 3 5 8l5 5", right: "M6 3l5 5-5 5", up: "M3 10l5-5 5 5", down: "M3 6l5 5 5-5",
  tool: "M10.5 2.2a3.5 3.5 0 0 0-3.3 4.9L2.5 11.8l1.7 1.7 4.7-4.7a3.5 3.5 0 0 0 4.6-4.5l-2 2-1.8-.4-.4-1.8z",
  file: "M4 1.8h5l3 3v9.4H4zM9 1.8v3h3", check: "M3 8.5l3.2 3.2L13 5", cross: "M4 4l8 8M12 4l-8 8",
  dash: "M3.5 8h9", swap: "M2 5.5h10l-2.5-2.5M14 10.5H4l2.5 2.5", save: "M8 2v8M4.8 7 8 10.2 11.2 7M2.5 13.5h11",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.5.3-.8.6-.8 1.2v.4M8 12v.2",
};

export function icon(name, label) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  if (label) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", label); }
  else svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// -- texts -------------------------------------------------------------------------------------------------------------

// Terminal sequences, other controls, and marks that turn the direction of a text: shown, never obeyed.
const ODD = /\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function visible(char) {
  const code = char.charCodeAt(0);
  if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`; // as terminals write them: every font has it
  if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** A text as one line that holds nothing odd: for titles, labels and table cells. */
export function plain(text) {
  return String(text ?? "").replace(/\r?\n|\r/g, " ⏎ ").replace(ODD, (found) => [...found].map((c) => c < " " || ODD.test((ODD.lastIndex = 0, c)) ? visible(c) : c).join(""));
}

/** Puts a text into an element: odd characters marked, `words` highlighted. Returns how many times they occur. */
export function putText(element, text, words) {
  const value = String(text ?? "").replace(/\r\n/g, "\n");
  let hits = 0;
  const add = (piece) => {
    if (!words) { element.append(piece); return; }
    const low = piece.toLowerCase();
    let at = 0;
    for (let found = low.length === piece.length ? low.indexOf(words) : -1; found >= 0; found = low.indexOf(words, at)) {
      if (found > at) element.append(piece.slice(at, found));
      element.append(h("mark", null, piece.slice(found, found + words.length)));
      at = found + words.length;
      hits += 1;
    }
    if (at < piece.length) element.append(piece.slice(at));
  };
  ODD.lastIndex = 0;
  let last = 0;
  for (let match = ODD.exec(value); match; match = ODD.exec(value)) {
    if (match.index > last) add(value.slice(last, match.index));
    const shown = [...match[0]].map((c) => (c < " " || c.length === 1 && /[\x7f-\x9f\u200b-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/.test(c) ? visible(c) : c)).join("");
    element.append(h("span.odd", { title: "a control character" }, shown));
    last = match.index + match[0].length;
  }
  if (last < value.length) add(value.slice(last));
  return hits;
}

export const number = (value, digits = 3) =>
  value === null || value === undefined ? "–" : Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);

export function short(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (Math.abs(value) >= 1e4) return `${(value / 1e3).toFixed(0)}k`;
  if (Math.abs(value) >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

export function bytes(value) {
  if (value === null || value === undefined) return "";
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${(value / 1024).toFixed(1)} KB`;
  return `${(value / (1 << 20)).toFixed(1)} MB`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  value = Math.round(value);
  if (value < 3600) return `${Math.floor(value / 60)} min ${String(value % 60).padStart(2, "0")}`;
  return `${Math.floor(value / 3600)} h ${String(Math.floor((value % 3600) / 60)).padStart(2, "0")}`;
}

export function when(text) {
  const time = text ? new Date(text) : null;
  if (!time || Number.isNaN(time.valueOf())) return "–";
  const two = (n) => String(n).padStart(2, "0");
  return `${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

export const usd = (value) => (value === null || value === undefined ? "–" : `$${value < 1 ? value.toFixed(4) : value.toFixed(2)}`);

/** A word of the record for people: `sandbox_died` is "sandbox died". */
export const words = (text) => plain(String(text ?? "").replaceAll("_", " "));

// -- requests ----------------------------------------------------------------------------------------------------------

export class Refused extends Error {}

/** JSON from the viewer's own address; `parameters` may hold lists. Throws `Refused` with what the server says. */
export async function ask(path, parameters, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString(), url = `api/${path}${text ? `?${text}` : ""}`;
  let answer;
  try {
    const early = window.envkit.early[url]; // asked for by start.js, for the first look alone
    delete window.envkit.early[url];
    answer = await (early || fetch(url, { signal }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("envkit view does not answer: was it stopped?");
  }
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused((value && value.error) || `the viewer answered ${answer.status}`);
  return value;
}

/** A name for an address. A file's name that is no text (half of a surrogate pair) would be an error there. */
export const enc = (name) => encodeURIComponent(String(name).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));

/** Says something to those who hear the page. */
export function say(text) {
  document.getElementById("say").textContent = text;
}

export function empty(text, detail) {
  return h("div.empty", null, h("p", null, text), detail ? h("p.soft", null, plain(detail)) : null);
}

export function failed(error) {
  return h("div.empty.bad", { role: "alert" }, h("p", null, "This can't be shown"), h("p.soft", null, plain(error.message)));
}

// -- pieces of the page ------------------------------------------------------------------------------------------------

const STATUS = { scored: "good", unscored: "warn", failed: "bad", cancelled: "dim", running: "info" };

export function statusPill(status) {
  return h(`span.pill.${STATUS[status] || "dim"}`, null, words(status || "unknown"));
}

/** A reward as a bar with its number. */
export function rewardBar(reward, { lower = null, upper = null } = {}) {
  if (reward === null || reward === undefined) {
    const bounds = lower !== null && upper !== null && lower !== undefined && upper !== undefined;
    return h("span.reward.none", { title: "no reward: there is no whole verdict" }, bounds ? `${number(lower, 2)}–${number(upper, 2)}` : "none");
  }
  const share = Math.max(0, Math.min(1, reward));
  const kind = reward >= 1 ? "full" : reward <= 0 ? "zero" : "some";
  return h(`span.reward.${kind}`, null, h("span.track", { "aria-hidden": "true" }, h("span.fill", { style: { width: `${share * 100}%` } })),
    h("span.n", null, number(Number(reward), 2)));
}

export function tile(value, name, kind) {
  return h("div.tile", { class: kind }, h("b", null, value), h("span", null, name));
}

/** Tabs that follow the keyboard (arrows, Home, End). `tabs`: [key, label, badge?]. */
export function tabList(label, tabs, current, choose) {
  const list = h("div.tabs", { role: "tablist", "aria-label": label });
  tabs.forEach(([key, name, badge], at) => {
    const tab = h("button.tab", {
      role: "tab", id: `tab-${key}`, "aria-selected": String(key === current), tabindex: key === current ? "0" : "-1",
      "aria-controls": "panel", onclick: () => choose(key),
      onkeydown: (event) => {
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined || !tabs[to]) return;
        event.preventDefault();
        choose(tabs[to][0], true);
      },
    }, name, badge !== undefined && badge !== null ? h("span.badge", null, badge) : null);
    list.append(tab);
  });
  return list;
}

/** What isn't needed for what is seen first. */
export const afterPaint = (action) => requestAnimationFrame(() => setTimeout(action));

export function debounce(wait, action) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => action(...given), wait); };
}
