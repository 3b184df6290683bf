// A list of any length: only the rows in sight are elements, and pages are fetched when their rows
// come into sight.

import { h } from "./dom.js";

const ROW = 44;
const PAGE = 500;
const MARGIN = 8;

export class LongList {
  // `fetchPage(limit, cursor)` gives {items, total, next}; `cells(item)` the contents of a row.
  constructor({ label, columns, fetchPage, cells, key, onOpen, empty }) {
    Object.assign(this, { fetchPage, cells, key, onOpen, empty });
    this.spacer = h("div", { class: "spacer" });
    this.body = h("div", { class: "rows", tabIndex: 0, role: "rowgroup" }, this.spacer);
    this.message = h("p", { class: "empty", role: "status" });
    this.table = h(
      "div", { role: "table", "aria-label": label, class: "table" },
      h("div", { role: "rowgroup" }, h(
        "div", { role: "row", class: "head", "aria-rowindex": "1" },
        columns.map((column) => h("span", { role: "columnheader" }, column)),
      )),
      this.body,
    );
    this.element = h("div", { class: "long-list" }, this.table, this.message);
    this.body.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.schedule()).observe(this.body);
    this.reset();
  }

  reset() {
    this.items = [];
    this.known = new Map();
    this.total = 0;
    this.next = null;
    this.complete = false;
    this.generation = (this.generation ?? 0) + 1;
    this.loading = null;
    this.active = 0;
    this.rows = new Map();
    this.spacer.replaceChildren();
  }

  async reload() {
    this.reset();
    await this.more();
    this.body.scrollTop = 0;
  }

  more() {
    if (this.complete) return Promise.resolve();
    this.loading ??= this.load(this.generation).finally(() => { this.loading = null; });
    return this.loading;
  }

  async load(generation) {
    try {
      const page = await this.fetchPage(PAGE, this.next);
      if (generation !== this.generation) return;
      for (const item of page.items) this.put(item);
      this.total = Math.max(page.total, this.items.length);
      this.next = page.next;
      this.complete = page.next === null;
      this.message.textContent = this.total === 0 ? this.empty : "";
    } catch (error) {
      this.complete = true;
      this.message.textContent = error.message;
    }
    this.draw();
  }

  // Take a page that begins with the newest item for what the list begins with now. What it lacks
  // is gone; what is in sight, marked or has the focus stays so, whatever comes on top.
  renew(page) {
    const mine = (item) => item && this.key(item);
    const last = page.items.at(-1);
    const place = last ? this.items.findIndex((item) => mine(item) === mine(last)) : -1;
    const rest = page.next === null || place < 0 ? [] : this.items.slice(place + 1);
    if (!rest.length) {
      this.next = page.next;
      this.complete = page.next === null;
      this.generation += 1;
    }
    const before = [...this.items];
    const top = Math.floor(this.body.scrollTop / ROW);
    const at = [...this.rows].find(([, row]) => row === document.activeElement)?.[0];
    const [seen, active, focused] = [top, this.active, at].map((index) => mine(before[index]));
    for (const item of page.items) this.put(item);
    this.items = [...page.items, ...rest].map((item) => this.known.get(mine(item)));
    this.known = new Map(this.items.map((item) => [mine(item), item]));
    this.total = Math.max(page.total, this.items.length);
    this.message.textContent = this.total === 0 ? this.empty : "";
    if (before.length === this.items.length && before.every((item, at) => item === this.items[at])) {
      this.draw();
      return;
    }
    const find = (key) => this.items.findIndex((item) => mine(item) === key);
    this.active = Math.max(find(active), 0);
    this.opened &&= find(active) >= 0;
    this.rows.clear();
    this.spacer.replaceChildren();
    this.spacer.style.height = `${this.total * ROW}px`;
    if (this.body.scrollTop && find(seen) >= 0) this.body.scrollTop += (find(seen) - top) * ROW;
    this.draw();
    if (focused) (this.rows.get(find(focused)) ?? this.body).focus({ preventScroll: true });
  }

  // Take what is new of an item that is listed.
  update(item) {
    if (this.known.has(this.key(item))) this.put(item);
    this.draw();
  }

  put(item) {
    const key = this.key(item);
    const place = this.known.get(key);
    if (place !== undefined) {
      if (Object.keys(item).some((name) => place[name] !== item[name])) {
        Object.assign(place, item, { dirty: true });
      }
      return;
    }
    const kept = { ...item, dirty: false };
    this.known.set(key, kept);
    this.items.push(kept);
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const { scrollTop, clientHeight } = this.body;
    const first = Math.max(Math.floor(scrollTop / ROW) - MARGIN, 0);
    const last = Math.min(Math.ceil((scrollTop + clientHeight) / ROW) + MARGIN, this.total);
    this.spacer.style.height = `${this.total * ROW}px`;
    this.table.setAttribute("aria-rowcount", String(this.total + 1));
    let focused = -1;
    for (const [index, row] of this.rows) {
      const gone = index < first || index >= last;
      const stale = row.waiting && index < this.items.length;
      if (gone || stale || this.items[index]?.dirty) {
        if (row === document.activeElement && !gone) focused = index;
        row.remove();
        this.rows.delete(index);
        if (!gone && this.items[index]) this.items[index].dirty = false;
      }
    }
    for (let index = first; index < last; index += 1) {
      if (!this.rows.has(index)) this.rows.set(index, this.row(index));
    }
    this.rows.get(focused)?.focus({ preventScroll: true });
    if (last > this.items.length && !this.complete) this.more().then(() => this.schedule());
  }

  row(index) {
    const item = this.items[index];
    const row = h(
      "div",
      {
        role: "row", class: item ? "row" : "row waiting", "aria-rowindex": String(index + 2),
        tabIndex: -1, onclick: () => item && this.open(index),
      },
      item
        ? this.cells(item).map((cell) => fitted(h("span", { role: "cell" }, cell)))
        : h("span", { role: "cell" }, "…"),
    );
    row.waiting = !item;
    row.style.transform = `translateY(${index * ROW}px)`;
    row.classList.toggle("active", Boolean(this.opened) && index === this.active);
    this.spacer.append(row);
    return row;
  }

  open(index) {
    this.opened = true;
    this.active = index;
    for (const [at, row] of this.rows) row.classList.toggle("active", at === index);
    this.onOpen?.(this.items[index]);
  }

  async pressed(event) {
    const page = Math.max(Math.floor(this.body.clientHeight / ROW) - 1, 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    let target = this.active + (steps[event.key] ?? 0);
    if (event.key === "Home") target = 0;
    else if (event.key === "End") target = this.total - 1;
    else if (event.key === "Enter" && this.items[this.active]) this.open(this.active);
    else if (!(event.key in steps)) return;
    event.preventDefault();
    await this.focus(Math.min(Math.max(target, 0), this.total - 1));
  }

  async focus(index) {
    this.active = index;
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.body;
    if (top < scrollTop) this.body.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.body.scrollTop = top + ROW - clientHeight;
    this.draw();
    while (index >= this.items.length && !this.complete) await this.more();
    if (this.active === index) this.rows.get(index)?.focus({ preventScroll: true });
  }
}

// What is cut off can be read by pointing at it.
function fitted(cell) {
  cell.title = cell.textContent;
  return cell;
}
