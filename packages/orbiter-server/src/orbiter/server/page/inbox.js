// Everything in the cluster that waits for a person, what has waited longest first.

import { request } from "./api.js";
import { fill, h, when } from "./dom.js";
import { kindOf, questionOf } from "./question.js";

const REFRESH = 3000;
const MOST = 100;

export class Inbox {
  constructor() {
    this.cards = new Map();
    this.problem = h("p", { class: "problem", role: "status" });
    this.more = h("p", { class: "soft" });
    this.empty = h("p", { class: "empty", hidden: true }, "Nothing waits for you. A task or a session that asks something, or wants to call a tool that needs a person's word, is shown here.");
    this.list = h("ul", { class: "cards", "aria-label": "What waits" });
    this.element = h("section", { class: "listing inbox", "aria-label": "Inbox" }, h("h2", {}, "Inbox"), this.problem, this.empty, this.list, this.more);
  }

  async enter() {
    this.timer ??= setInterval(() => document.hidden || this.refresh(), REFRESH);
    await this.refresh();
  }

  leave() {
    clearInterval(this.timer);
    this.timer = null;
  }

  async refresh() {
    this.refreshing ??= this.renew().finally(() => { this.refreshing = null; });
    await this.refreshing;
  }

  async renew() {
    let page;
    try {
      page = await request("GET", `/v1/cluster/questions?limit=${MOST}`);
    } catch (error) {
      // what may not be seen any more is not left on the screen
      if (error.status === 401 || error.status === 403) this.show([]);
      this.problem.textContent = error.message;
      return;
    }
    this.problem.textContent = page.left_out.length ? `What sessions ask in ${page.left_out.slice(0, 5).join(", ")} cannot be read now.` : "";
    this.show(page.items);
    const behind = page.total - page.items.length;
    this.more.textContent = behind > 0 ? `${behind} more wait behind these.` : "";
  }

  // One question, as whoever looks may answer it: it stays as it is while it waits.
  key({ kind, namespace, name, question_id: id, actions }) {
    return [kind, namespace, name, id, actions].join("/");
  }

  card(key, item) {
    const answered = () => {
      this.cards.get(key)?.remove();
      this.cards.set(key, null);
      this.count();
    };
    return h(
      "li", { class: "waiting" },
      h(
        "p", {}, h("a", { href: `#/cluster//${kindOf(item)}/${item.namespace}/${item.name}` }, `${item.namespace}/${item.name}`),
        h("span", { class: "soft" }, `${item.kind === "session" ? " (session)" : ""} asked ${when(item.asked_at)}`),
      ),
      questionOf(item, answered),
    );
  }

  show(items) {
    const wanted = new Map(items.map((item) => [this.key(item), item]));
    for (const key of this.cards.keys()) if (!wanted.has(key)) this.cards.delete(key);
    for (const [key, item] of wanted) if (!this.cards.has(key)) this.cards.set(key, this.card(key, item));
    const elements = [...wanted.keys()].map((key) => this.cards.get(key)).filter(Boolean);
    // left alone where nothing has changed: somebody may be typing
    if (elements.length !== this.list.children.length || elements.some((element, at) => this.list.children[at] !== element)) {
      fill(this.list, elements);
    }
    this.count();
  }

  count() {
    this.empty.hidden = this.list.children.length > 0 || this.problem.textContent !== "";
  }
}
