// The conversations at the side of the chat.

import { request } from "./api.js";
import { h, when } from "./dom.js";

const PAGE = 50;

export class Sessions {
  constructor() {
    this.items = h("ul", { class: "sessions" });
    this.more = h("button", { class: "quiet", hidden: true, onclick: () => this.load() }, "Show earlier");
    this.element = h("nav", { "aria-label": "Conversations" }, this.items, this.more);
    this.current = null;
  }

  async reload() {
    this.next = null;
    const page = await request("GET", `/v1/sessions?limit=${PAGE}`);
    this.items.replaceChildren();
    this.append(page);
  }

  async load() {
    this.append(await request("GET", `/v1/sessions?limit=${PAGE}&after=${encodeURIComponent(this.next)}`));
  }

  append(page) {
    this.next = page.next;
    this.more.hidden = page.next === null;
    this.items.append(...page.sessions.map((session) => this.item(session)));
    this.mark(this.current);
  }

  item(session) {
    return h(
      "li", {},
      h(
        "a", { href: `#/chat/${session.id}`, "data-id": session.id },
        h("span", { class: "title" }, session.title || "New conversation"),
        h("span", { class: "fine" }, `${session.agent} · ${when(session.updated_at)}`),
      ),
    );
  }

  mark(id) {
    this.current = id;
    for (const link of this.items.querySelectorAll("a")) {
      if (link.dataset.id === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
}
