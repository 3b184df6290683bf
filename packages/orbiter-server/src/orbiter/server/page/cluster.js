// The AgentTasks and POSessions of the cluster.

import { request } from "./api.js";
import { badge, h, when } from "./dom.js";
import { LongList } from "./list.js";

export class Cluster {
  constructor() {
    this.lists = [this.list("AgentTasks", "tasks"), this.list("POSessions", "sessions")];
    this.element = h(
      "div", { class: "stack" },
      this.lists.map(({ title, list }) => h(
        "section", { class: "listing", "aria-label": title }, h("h2", {}, title), list.element,
      )),
    );
  }

  list(title, path) {
    const list = new LongList({
      label: title,
      columns: ["Phase", "Name", "Agent", "Message", "Created"],
      empty: `There are no ${title} in this namespace.`,
      key: (item) => `${item.namespace}/${item.name}`,
      fetchPage: async (limit, cursor) => {
        const query = new URLSearchParams({ limit });
        if (cursor) query.set("after", cursor);
        return request("GET", `/v1/cluster/${path}?${query}`);
      },
      cells: (item) => [
        badge(item.phase || "new"), item.name, item.agent, item.message, when(item.created_at),
      ],
    });
    list.element.classList.add("wide");
    return { title, list };
  }

  async enter() {
    await Promise.all(this.lists.map(({ list }) => list.reload()));
  }

  leave() {}
}
