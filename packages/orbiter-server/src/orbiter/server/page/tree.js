// A tree for keyboard and screen reader, as the ARIA practices describe it, with a bar a node that
// shows when it began and how long it took.

import { h, seconds } from "./dom.js";

export class Tree {
  constructor(label) {
    this.element = h("ul", { role: "tree", "aria-label": label, class: "tree" });
    this.closed = new Set();
    this.current = null;
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event));
  }

  show(root) {
    this.total = Math.max(root.duration, 0.001);
    const focused = this.element.contains(document.activeElement);
    this.element.replaceChildren(this.item(root, 1));
    const rows = this.rows();
    const active = rows.find((row) => row.dataset.key === this.current) ?? rows[0];
    if (active) active.tabIndex = 0;
    if (focused) active?.focus();
  }

  item(node, level) {
    const open = node.children.length > 0 && !this.closed.has(node.key);
    const bar = h("span", { class: `bar ${node.kind}${node.failed ? " failed" : ""}` });
    bar.style.setProperty("--start", `${(100 * node.start) / this.total}%`);
    bar.style.setProperty("--length", `${(100 * node.duration) / this.total}%`);
    const row = h(
      "div", { class: "row" },
      h("span", { class: `twig${node.children.length ? "" : " leaf"}`, "aria-hidden": "true" }),
      h("span", { class: "label" }, node.label),
      node.note ? h("span", { class: `note${node.failed ? " failed" : ""}` }, node.note) : null,
      h("span", { class: "time" }, seconds(node.duration)),
      h("span", { class: "track", "aria-hidden": "true" }, bar),
    );
    return h(
      "li",
      {
        role: "treeitem", tabIndex: -1, "aria-level": String(level), "data-key": node.key,
        "aria-label": [node.label, node.note, seconds(node.duration)].filter(Boolean).join(", "),
        "aria-expanded": node.children.length ? String(open) : undefined,
      },
      row,
      open ? h("ul", { role: "group" }, node.children.map((child) => this.item(child, level + 1))) : null,
    );
  }

  rows() {
    return [...this.element.querySelectorAll("[role=treeitem]")];
  }

  focus(row) {
    if (!row) return;
    for (const other of this.rows()) other.tabIndex = -1;
    row.tabIndex = 0;
    this.current = row.dataset.key;
    row.focus();
  }

  toggle(row, open) {
    const key = row.dataset.key;
    if (!row.hasAttribute("aria-expanded")) return;
    if (open) this.closed.delete(key);
    else this.closed.add(key);
    this.current = key;
    this.onToggle?.();
  }

  click(event) {
    const row = event.target.closest("[role=treeitem]");
    if (!row) return;
    this.focus(row);
    this.toggle(row, row.getAttribute("aria-expanded") !== "true");
  }

  key(event) {
    const row = event.target.closest("[role=treeitem]");
    if (!row) return;
    const rows = this.rows();
    const at = rows.indexOf(row);
    const expanded = row.getAttribute("aria-expanded");
    const actions = {
      ArrowDown: () => this.focus(rows[at + 1]),
      ArrowUp: () => this.focus(rows[at - 1]),
      Home: () => this.focus(rows[0]),
      End: () => this.focus(rows.at(-1)),
      ArrowRight: () => (expanded === "false" ? this.toggle(row, true) : expanded && this.focus(rows[at + 1])),
      ArrowLeft: () => (expanded === "true"
        ? this.toggle(row, false)
        : this.focus(row.parentElement.closest("[role=treeitem]"))),
      Enter: () => this.toggle(row, expanded !== "true"),
      " ": () => this.toggle(row, expanded !== "true"),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}
