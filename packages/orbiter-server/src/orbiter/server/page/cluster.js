// The AgentTasks and POSessions of the cluster, as they are now.

import { request } from "./api.js";
import { badge, h, when } from "./dom.js";
import { LongList } from "./list.js";
import { Work } from "./work.js";

const REFRESH = 2000;
const NEWEST = 200;
const MOST_NAMESPACES = 1000;
const PHASES = {
  tasks: ["Pending", "Running", "InputRequired", "Completed", "Failed", "Cancelled"],
  sessions: ["Asleep", "Waiting", "Waking", "Ready", "Busy", "Suspended", "Failed"],
};
const NAME = /^[a-z0-9.-]+$/;
const AGENTS = ["claude", "codex", "factory", "gemini", "opencode", "orbiter"];

export class Cluster {
  constructor() {
    this.kinds = [
      this.kind("AgentTasks", "tasks", "Message"),
      this.kind("POSessions", "sessions", "Conversation"),
    ];
    this.work = new Work();
    this.known = h("datalist", { id: "namespaces" });
    this.scope = h("input", {
      type: "search", id: "namespace", list: "namespaces", placeholder: "all namespaces", autocomplete: "off", spellcheck: "false",
      onchange: ({ target }) => { location.hash = `#/cluster/${encodeURIComponent(target.value.trim())}`; },
    });
    this.element = h("div", { class: "split" }, h(
      "div", { class: "stack" },
      h("search", { class: "scope" }, h("label", { for: "namespace" }, "Namespace"), this.scope, this.known),
      this.kinds.map(({ title, list, problem, filter }) => h(
        "section", { class: "listing", "aria-label": title },
        h("div", { class: "tools" }, h("h2", {}, title, " ", problem), filter), list.element,
      )),
    ), this.work.element);
  }

  kind(title, path, said) {
    const chosen = {};
    const page = (limit, cursor) => {
      const query = new URLSearchParams({ limit });
      if (cursor) query.set("after", cursor);
      if (this.namespace) query.set("namespace", this.namespace);
      for (const [name, value] of Object.entries(chosen)) if (value) query.set(name, value);
      return request("GET", `/v1/cluster/${path}?${query}`);
    };
    const list = new LongList({
      label: title,
      columns: ["Phase", "Name", "Agent", said, "Created"],
      empty: `There are no ${title} here. ${path === "tasks" ? "kubectl orbiter submit makes one." : "kubectl apply makes one."}`,
      key: (item) => `${item.namespace}/${item.name}`,
      fetchPage: page,
      cells: (item) => [
        badge(item.phase || "new"),
        [h("span", { class: "soft" }, `${item.namespace}/`), item.name],
        item.agent, item.message, when(item.created_at),
      ],
      onOpen: ({ namespace, name }) => {
        location.hash = `#/cluster/${this.namespace ?? ""}/${path}/${namespace}/${name}`;
      },
    });
    list.element.classList.add("wide");
    const filter = this.filter(title, PHASES[path], (name, value) => {
      chosen[name] = value;
      list.reload();
    });
    return { title, page, list, filter, chosen, problem: h("span", { class: "problem", role: "status" }) };
  }

  filter(title, phases, choose) {
    const select = (name, values) => h(
      "select", { "aria-label": `${name} of ${title}`, onchange: ({ target }) => choose(name, target.value) },
      h("option", { value: "" }, `any ${name}`),
      values.map((value) => h("option", { value }, value)),
    );
    return h(
      "search", {}, select("phase", phases), select("agent", AGENTS),
      h("input", {
        type: "search", "aria-label": `Label of ${title}`, placeholder: "Label: team=red",
        onchange: ({ target }) => choose("label", target.value.trim()),
      }),
      h("input", {
        type: "search", "aria-label": `Text in ${title}`, placeholder: "Name or text …",
        oninput: ({ target }) => choose("text", target.value.trim()),
      }),
    );
  }

  // Of one namespace, as #/cluster/NAME has it; otherwise of all that are theirs to see. Behind it
  // the task or session that is open: #/cluster//tasks/NAMESPACE/NAME.
  async enter(namespace, kind, place, name) {
    if (["tasks", "sessions"].includes(kind) && NAME.test(place ?? "") && NAME.test(name ?? "")) this.work.open(kind, place, name);
    else this.work.close();
    if (this.namespace !== namespace) {
      this.namespace = namespace;
      for (const { list } of this.kinds) list.reset();
      await this.refreshing;
    }
    if (document.activeElement !== this.scope) this.scope.value = namespace ?? "";
    this.timer ??= setInterval(() => document.hidden || this.refresh(), REFRESH);
    await this.refresh();
  }

  leave() {
    clearInterval(this.timer);
    this.timer = null;
    this.work.close();
  }

  async refresh() {
    this.refreshing ??= this.renew().finally(() => { this.refreshing = null; });
    await this.refreshing;
  }

  // All that were ever seen: the list of one namespace names no others.
  offer(namespaces) {
    const offered = new Set([...this.known.children].map((each) => each.value));
    const unknown = namespaces.filter((each) => !offered.has(each)).slice(0, MOST_NAMESPACES - offered.size);
    this.known.append(...unknown.map((value) => h("option", { value })));
  }

  async renew() {
    this.work.refresh();
    await Promise.all(this.kinds.map(async ({ page, list, problem, chosen }) => {
      const asked = JSON.stringify(chosen);
      try {
        const { namespace } = this;
        const found = await page(NEWEST);
        this.offer(found.namespaces);
        if (namespace !== this.namespace) return;
        // of others by now: the list has been asked for those
        if (asked === JSON.stringify(chosen)) list.renew(found);
        problem.textContent = "";
      } catch (error) {
        // what may not be seen any more is not left on the screen
        if (error.status === 401 || error.status === 403) list.renew({ items: [], total: 0, next: null });
        problem.textContent = error.message;
      }
    }));
  }
}
