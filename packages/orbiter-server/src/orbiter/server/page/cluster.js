// The AgentTasks and POSessions of the cluster, as they are now.

import { request } from "./api.js";
import { badge, h, when } from "./dom.js";
import { LongList } from "./list.js";

const REFRESH = 2000;
const NEWEST = 200;

export class Cluster {
  constructor() {
    this.kinds = [
      this.kind("AgentTasks", "tasks", "Message"),
      this.kind("POSessions", "sessions", "Conversation"),
    ];
    this.element = h(
      "div", { class: "stack" },
      this.kinds.map(({ title, list, problem }) => h(
        "section", { class: "listing", "aria-label": title },
        h("h2", {}, title, " ", problem), list.element,
      )),
    );
  }

  kind(title, path, said) {
    const page = (limit, cursor) => {
      const query = new URLSearchParams({ limit });
      if (cursor) query.set("after", cursor);
      return request("GET", `/v1/cluster/${path}?${query}`);
    };
    const list = new LongList({
      label: title,
      columns: ["Phase", "Name", "Agent", said, "Created"],
      empty: `There are no ${title} here.`,
      key: (item) => `${item.namespace}/${item.name}`,
      fetchPage: page,
      cells: (item) => [
        badge(item.phase || "new"),
        [h("span", { class: "soft" }, `${item.namespace}/`), item.name],
        item.agent, item.message, when(item.created_at),
      ],
    });
    list.element.classList.add("wide");
    return { title, page, list, problem: h("span", { class: "problem", role: "status" }) };
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
    if (this.refreshing) return;
    this.refreshing = true;
    await Promise.all(this.kinds.map(async ({ page, list, problem }) => {
      try {
        list.renew(await page(NEWEST));
        problem.textContent = "";
      } catch (error) {
        problem.textContent = error.message;
      }
    }));
    this.refreshing = false;
  }
}
