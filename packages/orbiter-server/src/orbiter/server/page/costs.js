// What agents cost, by day, namespace, agent or label: a chart, and the numbers beside it.

import { request } from "./api.js";
import { fill, h } from "./dom.js";

const DAY_MS = 86400000;
const MOST_BARS = 60;
const HEIGHT = 160;
const dollars = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 4 });

export class Costs {
  constructor() {
    this.by = this.select("Sum up by", [["day", "by day"], ["namespace", "by namespace"], ["agent", "by agent"], ["label", "by label"]]);
    this.days = this.select("Time", [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["366", "a year"]]);
    this.days.value = "30";
    this.label = h("input", { "aria-label": "Key of the label", placeholder: "Label, such as team", hidden: true, onchange: () => this.refresh() });
    this.problem = h("p", { class: "problem", role: "status" });
    this.total = h("p", { class: "total", role: "status" });
    this.chart = h("div", { class: "chart" });
    this.table = h("div", { class: "numbers", role: "region", "aria-label": "Numbers", tabIndex: 0 });
    this.element = h(
      "section", { class: "listing costs", "aria-label": "Costs" },
      h("div", { class: "tools" }, h("h2", {}, "Costs"), h("search", {}, this.by, this.label, this.days)),
      this.problem, this.total, this.chart, this.table,
      h("p", { class: "fine" }, "Of the tasks and sessions that are still there, by what their agents have told. A session has one sum, which belongs to no day."),
    );
  }

  select(name, values) {
    return h("select", { "aria-label": name, onchange: () => this.refresh() }, values.map(([value, text]) => h("option", { value }, text)));
  }

  async enter(namespace) {
    this.namespace = namespace;
    await this.refresh();
  }

  leave() {}

  async refresh() {
    const by = this.by.value;
    this.label.hidden = by !== "label";
    const label = this.label.value.trim();
    if (by === "label" && !label) {
      this.label.focus();
      return;
    }
    const query = new URLSearchParams({ by, days: this.days.value, ...(by === "label" && { label }) });
    if (this.namespace) query.set("namespace", this.namespace);
    const asked = query.toString();
    this.asked = asked;
    let found = { rows: [], cost_usd: 0 };
    let problem = "";
    try {
      found = await request("GET", `/v1/cluster/costs?${query}`);
    } catch (error) {
      problem = error.message;
    }
    if (asked !== this.asked) return; // of other wishes by now
    this.problem.textContent = problem;
    const days = this.days.selectedOptions[0].text;
    this.total.textContent = problem ? "" : `${dollars.format(found.cost_usd)} in ${days}`;
    fill(this.chart, found.rows.length ? bars(by === "day" ? everyDay(found.rows) : found.rows) : null);
    fill(this.table, found.rows.length ? numbers(by, found.rows) : problem ? null : h("p", { class: "empty" }, "Nothing was at work in this time."));
  }
}

// Days without a task are days, too.
function everyDay(rows) {
  const known = new Map(rows.map((row) => [row.key, row]));
  const first = Date.parse(rows[0].key);
  const last = Date.parse(rows.at(-1).key);
  const count = Math.min(Math.round((last - first) / DAY_MS) + 1, 400);
  return Array.from({ length: count }, (_, at) => {
    const key = new Date(first + at * DAY_MS).toISOString().slice(0, 10);
    return known.get(key) ?? { key, cost_usd: 0 };
  });
}

function bars(rows) {
  const shown = rows.slice(-MOST_BARS);
  const most = Math.max(...shown.map((row) => row.cost_usd), 1e-9);
  const width = 100 / shown.length;
  const drawn = shown.map(({ key, cost_usd: cost }, at) => {
    const height = Math.max((cost / most) * (HEIGHT - 4), cost > 0 ? 2 : 0);
    return svg(
      "rect", { x: `${at * width + width * 0.1}%`, width: `${Math.min(width * 0.8, 12)}%`, y: HEIGHT - height, height },
      svg("title", {}, `${key}: ${dollars.format(cost)}`),
    );
  });
  const dearest = shown.reduce((one, other) => (other.cost_usd > one.cost_usd ? other : one));
  const told = `${shown.length} bars from ${shown[0].key} to ${shown.at(-1).key}; the highest is ${dearest.key} with ${dollars.format(dearest.cost_usd)}. The table has the numbers.`;
  return svg("svg", { role: "img", "aria-label": told, width: "100%", height: HEIGHT }, ...drawn);
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function numbers(by, rows) {
  const count = (value) => h("td", {}, value.toLocaleString());
  return h(
    "table", {},
    h("thead", {}, h("tr", {}, [by, "Cost", "Tasks", "Sessions", "Input tokens", "Output tokens", "Without cost"].map(
      (name) => h("th", { scope: "col" }, name[0].toUpperCase() + name.slice(1)),
    ))),
    h("tbody", {}, (by === "day" ? [...rows].reverse() : rows).map((row) => h(
      "tr", {}, h("th", { scope: "row" }, row.key), h("td", {}, dollars.format(row.cost_usd)),
      count(row.tasks), count(row.sessions), count(row.input_tokens), count(row.output_tokens),
      count(row.without_cost),
    ))),
  );
}
