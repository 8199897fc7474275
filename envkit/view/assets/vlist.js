// A list of which only the rows in sight exist. Rows may have any height: an estimate counts until a row was drawn, and
// what is in sight stays where it is when heights above it turn out to be others.

import { afterPaint } from "./dom.js";

const OVERSCAN = 400; // pixels drawn beyond the edges, but not at first

export class VirtualList {
  /**
   * @param {HTMLElement} scroller  scrolls; gets one child
   * @param {object} options  count; estimate(i) -> pixels; render(i) -> element; fixed: every row is as estimated;
   *   role, label; onrange(first, last)
   */
  constructor(scroller, options) {
    this.scroller = scroller;
    this.options = options;
    this.inner = document.createElement("div");
    this.inner.className = "vlist";
    if (options.role) this.inner.setAttribute("role", options.role);
    scroller.append(this.inner);
    this.drawn = new Map();
    this.count = 0;
    this.overscan = 0;
    this.onscroll = () => this.soon();
    scroller.addEventListener("scroll", this.onscroll, { passive: true });
    this.sizes = new ResizeObserver((entries) => {
      if (entries.some((entry) => entry.target === this.scroller)) this.soon();
      if (!options.fixed) this.measure(entries);
    });
    this.sizes.observe(scroller);
    this.setCount(options.count || 0);
  }

  setCount(count) {
    const before = this.heights;
    this.heights = new Float64Array(count);
    for (let i = 0; i < count; i++) this.heights[i] = before && i < this.count ? before[i] : this.options.estimate(i);
    this.count = count;
    this.tops = new Float64Array(count + 1);
    this.dirty = 0;
    this.clear();
    this.draw();
  }

  /** Forgets heights: after a change of what the rows are. */
  reset(count) {
    this.heights = null;
    this.count = 0;
    this.setCount(count);
  }

  clear() {
    for (const element of this.drawn.values()) { this.sizes.unobserve(element); element.remove(); }
    this.drawn.clear();
  }

  /** Draws rows anew, all or one. */
  refresh(index) {
    if (index === undefined) this.clear();
    else if (this.drawn.has(index)) {
      const element = this.drawn.get(index);
      this.sizes.unobserve(element);
      element.remove();
      this.drawn.delete(index);
    }
    this.soon();
  }

  soon() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  layout() {
    for (let i = this.dirty; i < this.count; i++) this.tops[i + 1] = this.tops[i] + this.heights[i];
    this.dirty = this.count;
    this.inner.style.height = `${this.tops[this.count]}px`;
  }

  /** The row at a height, by halving. */
  at(y) {
    let low = 0, high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle; else high = middle - 1;
    }
    return low;
  }

  draw() {
    if (this.closed) return;
    this.layout();
    if (!this.count) { this.clear(); return; }
    const top = this.scroller.scrollTop - this.inner.offsetTop, height = this.scroller.clientHeight || 800;
    const first = this.at(Math.max(0, top - this.overscan)), last = this.at(top + height + this.overscan);
    for (const [index, element] of this.drawn) {
      if (index < first || index > last) {
        if (element.contains(document.activeElement)) continue; // who is in it by keyboard stays there
        this.sizes.unobserve(element);
        element.remove();
        this.drawn.delete(index);
      }
    }
    if (this.options.onrange) this.options.onrange(first, last);
    for (let index = first; index <= last; index++) {
      let element = this.drawn.get(index);
      if (!element) {
        element = this.options.render(index);
        element.classList.add("vrow");
        element.dataset.index = index;
        this.inner.append(element);
        this.drawn.set(index, element);
        if (!this.options.fixed) this.sizes.observe(element);
      }
      element.style.transform = `translateY(${this.tops[index]}px)`;
    }
    if (!this.options.fixed) this.measure();
    if (!this.overscan) {
      // What is in sight is painted before what may come into sight is made.
      afterPaint(() => { this.overscan = OVERSCAN; this.soon(); });
    }
  }

  measure() {
    if (this.closed) return;
    const top = this.scroller.scrollTop - this.inner.offsetTop;
    const anchor = this.count ? this.at(Math.max(0, top)) : 0, rest = top - this.tops[anchor];
    let changed = false;
    for (const [index, element] of this.drawn) {
      const height = element.offsetHeight;
      if (height && Math.abs(height - this.heights[index]) > 0.5) {
        this.heights[index] = height;
        this.dirty = Math.min(this.dirty, index);
        changed = true;
      }
    }
    if (!changed) return;
    this.layout();
    for (const [index, element] of this.drawn) element.style.transform = `translateY(${this.tops[index]}px)`;
    if (top > 0 && !this.steering) this.scroller.scrollTop = this.tops[anchor] + rest + this.inner.offsetTop;
    this.soon();
  }

  /** Brings a row into sight: at `align` of the window's height, or just inside it (`nearest`). */
  scrollTo(index, align = "nearest") {
    if (!this.count) return;
    index = Math.max(0, Math.min(this.count - 1, index));
    for (let round = 0; round < 6; round++) {
      this.layout();
      const top = this.tops[index] + this.inner.offsetTop, height = this.heights[index];
      const view = this.scroller.clientHeight, now = this.scroller.scrollTop;
      let to = now;
      if (align !== "nearest") to = top - view * align;
      else if (top < now) to = top - 8;
      else if (top + Math.min(height, view) > now + view) to = top + Math.min(height, view) - view + 8;
      this.steering = true;
      this.scroller.scrollTop = to;
      this.draw();
      this.steering = false;
      if (Math.abs(this.tops[index] + this.inner.offsetTop - top) < 1) break;
    }
  }

  get first() {
    return this.count ? this.at(Math.max(0, this.scroller.scrollTop - this.inner.offsetTop + 4)) : 0;
  }

  close() {
    this.closed = true;
    this.sizes.disconnect();
    this.scroller.removeEventListener("scroll", this.onscroll);
  }
}

/** Pages of a long list, fetched when looked at; the oldest are forgotten. */
export class Pages {
  /** @param fetchPage (start, count) -> Promise of a list; @param arrived (start, count) */
  constructor(size, fetchPage, arrived, kept = 60) {
    Object.assign(this, { size, fetchPage, arrived, kept, pages: new Map(), waiting: new Map() });
    this.age = 0;
  }

  get(index) {
    const page = this.pages.get(Math.floor(index / this.size));
    return page ? page[index % this.size] : undefined;
  }

  want(first, last) {
    for (let page = Math.floor(first / this.size); page <= Math.floor(last / this.size); page++) this.load(page);
  }

  load(page) {
    if (this.pages.has(page)) return Promise.resolve();
    if (this.waiting.has(page)) return this.waiting.get(page);
    const age = this.age;
    const promise = this.fetchPage(page * this.size, this.size).then((items) => {
      if (age !== this.age) return;
      this.pages.set(page, items);
      if (this.pages.size > this.kept) this.pages.delete(this.pages.keys().next().value);
      this.arrived(page * this.size, items.length);
    }).finally(() => { if (age === this.age) this.waiting.delete(page); });
    this.waiting.set(page, promise);
    return promise;
  }

  put(page, items) { this.pages.set(page, items); }

  forget() {
    this.age += 1;
    this.pages.clear();
    this.waiting.clear();
  }
}
