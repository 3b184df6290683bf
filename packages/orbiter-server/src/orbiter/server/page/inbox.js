// Everything in the cluster that waits for a person, what has waited longest first.

import { request } from "./api.js";
import { fill, h, when } from "./dom.js";
import { pathOf, questionOf } from "./question.js";

const REFRESH = 3000;
const MOST = 100;

export class Inbox {
  constructor() {
    this.cards = new Map();
    this.problem = h("p", { class: "problem", role: "status" });
    this.more = h("p", { class: "soft" });
    this.empty = h("p", { class: "empty", hidden: true }, "Nothing waits for you. A task that asks something, or wants to call a tool that needs a person's word, is shown here.");
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
      page = await request("GET", `/v1/cluster/tasks?phase=InputRequired&limit=${MOST}`);
    } catch (error) {
      // what may not be seen any more is not left on the screen
      if (error.status === 401 || error.status === 403) this.show([]);
      this.problem.textContent = error.message;
      return;
    }
    this.problem.textContent = "";
    await Promise.all(page.items.map((item) => this.know(item)));
    this.show(page.items);
    this.more.textContent = page.next ? `${page.total - page.items.length} more wait behind these.` : "";
  }

  key({ namespace, name, attempts }) {
    return `${namespace}/${name}/${attempts}`;
  }

  // A question stays as it is while it waits, so each is asked for once.
  async know(brief) {
    const key = this.key(brief);
    if (this.cards.has(key)) return;
    this.cards.set(key, null);
    try {
      const item = await request("GET", pathOf(brief));
      this.cards.set(key, { item, element: item.question_id ? this.card(key, item) : null });
    } catch {
      this.cards.delete(key); // asked for again at the next look
    }
  }

  card(key, item) {
    const answered = () => {
      this.cards.get(key).element.remove();
      this.cards.get(key).element = null;
      this.count();
    };
    return h(
      "li", { class: "waiting" },
      h(
        "p", {}, h("a", { href: `#/cluster//tasks/${item.namespace}/${item.name}` }, `${item.namespace}/${item.name}`),
        h("span", { class: "soft" }, ` asked ${when(item.asked_at)}`),
      ),
      questionOf(item, answered),
    );
  }

  show(items) {
    const wanted = new Set(items.map((item) => this.key(item)));
    for (const key of this.cards.keys()) if (!wanted.has(key)) this.cards.delete(key);
    const cards = [...this.cards.values()].filter((card) => card?.element);
    cards.sort((one, other) => String(one.item.asked_at).localeCompare(String(other.item.asked_at)));
    const elements = cards.map(({ element }) => element);
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
