// The tasks of this server: a long list, and one of them in detail.

import { follow, request } from "./api.js";
import { announce, badge, fill, h, when } from "./dom.js";
import { LongList } from "./list.js";
import { show } from "./markdown.js";

const STATES = ["pending", "running", "input_required", "completed", "failed", "cancelled"];
const ENDED = new Set(["completed", "failed", "cancelled"]);
const REFRESH = 4000;

export class Tasks {
  constructor(agents) {
    this.state = "";
    this.list = new LongList({
      label: "Tasks",
      columns: ["State", "Task", "Agent", "Created"],
      empty: "There are no tasks yet.",
      key: (task) => task.id,
      fetchPage: async (limit, cursor) => this.page(limit, cursor),
      cells: (task) => [badge(task.state), task.input, task.agent, when(task.created_at)],
      onOpen: (task) => { location.hash = `#/tasks/${task.id}`; },
    });
    this.detail = h("section", { class: "detail", "aria-label": "Task", hidden: true });
    this.element = h(
      "div", { class: "split" },
      h(
        "section", { class: "listing", "aria-label": "All tasks" },
        h("div", { class: "tools" }, this.filter(), this.form(agents)),
        this.list.element,
      ),
      this.detail,
    );
  }

  async page(limit, cursor) {
    const query = new URLSearchParams({ limit });
    if (cursor) query.set("after", cursor);
    if (this.state) query.set("state", this.state);
    const page = await request("GET", `/v1/tasks?${query}`);
    return { items: page.tasks, total: page.total, next: page.next };
  }

  filter() {
    const options = STATES.map((state) => h("option", { value: state }, state.replace("_", " ")));
    return h(
      "label", {}, "State ",
      h("select", {
        onchange: (event) => {
          this.state = event.target.value;
          this.list.reload();
        },
      }, h("option", { value: "" }, "all"), options),
    );
  }

  form(agents) {
    const agent = h(
      "select", { "aria-label": "Agent of the new task" },
      agents.map(({ name }) => h("option", { value: name }, name)),
    );
    const input = h("input", { "aria-label": "New task", placeholder: "New task …", required: true });
    const problem = h("span", { class: "problem", role: "alert" });
    return h("form", {
      class: "new-task",
      onsubmit: async (event) => {
        event.preventDefault();
        problem.textContent = "";
        const text = input.value;
        input.value = "";
        try {
          const task = await request("POST", "/v1/tasks", { input: text, agent: agent.value });
          announce("Task handed in");
          await this.refresh();
          location.hash = `#/tasks/${task.id}`;
        } catch (error) {
          input.value ||= text;
          problem.textContent = error.message;
        }
      },
    }, input, agent, h("button", { class: "primary" }, "Hand in"), problem);
  }

  async enter(id) {
    if (!this.list.items.length) await this.list.more();
    this.timer ??= setInterval(() => document.hidden || this.refresh(), REFRESH);
    if (id) await this.show(id);
    else this.close();
  }

  leave() {
    clearInterval(this.timer);
    this.timer = null;
    this.close();
  }

  async refresh() {
    const state = this.state;
    try {
      const page = await this.page(100, null);
      if (state === this.state) this.list.renew(page);
    } catch { /* the next time */ }
  }

  close() {
    this.following?.abort();
    this.detail.hidden = true;
  }

  async show(id) {
    this.close();
    const following = new AbortController();
    this.following = following;
    this.detail.hidden = false;
    this.detail.replaceChildren(h("p", { class: "empty" }, "Loading …"));
    const log = h("ol", { class: "events" });
    try {
      await this.draw(id, log);
      await follow(`/v1/tasks/${id}/events`, {
        signal: following.signal,
        isLast: (event) => ENDED.has(event.payload.state),
        onEvent: (event) => {
          log.append(entry(event));
          if (event.event_type === "state_change" || event.payload.question) {
            this.draw(id, log).catch(() => {});
          }
        },
      });
    } catch (error) {
      this.detail.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  async draw(id, log) {
    const task = await request("GET", `/v1/tasks/${id}`);
    if (!location.hash.endsWith(id)) return;
    // what stands there already stays: somebody may be typing an answer
    const drawn = JSON.stringify(task);
    if (drawn === this.drawn && this.detail.contains(log)) return;
    this.drawn = drawn;
    const result = h("div", { class: "prose" });
    if (task.result !== null) show(result, task.result);
    fill(
      this.detail,
      h(
        "header", {}, h("h2", {}, "Task ", badge(task.state)),
        ENDED.has(task.state) ? null : h("button", {
          onclick: () => request("POST", `/v1/tasks/${id}/cancel`).then(() => this.draw(id, log)),
        }, "Cancel"),
        h("a", { href: "#/tasks", class: "close", "aria-label": "Close the task" }, "✕"),
      ),
      h("p", { class: "input" }, task.input),
      task.question ? this.question(task, log) : null,
      task.error ? h("p", { class: "problem" }, task.error) : null,
      task.result !== null ? h("h3", {}, "Result") : null,
      result,
      h("h3", {}, "Events"), log,
      h("p", { class: "fine" }, `${task.agent} · ${task.id}`),
    );
    announce(`Task is ${task.state.replace("_", " ")}`);
    this.list.update(brief(task));
  }

  question(task, log) {
    if (task.input_request?.kind === "approval") return this.approval(task, log);
    const input = h("input", { "aria-label": "Your answer", required: true });
    return h("form", {
      class: "question",
      onsubmit: async (event) => {
        event.preventDefault();
        await request("POST", `/v1/tasks/${task.id}/answer`, {
          text: input.value, ...(task.input_request && { request_id: task.input_request.id }),
        });
        await this.draw(task.id, log);
      },
    }, h("p", {}, task.question), input, h("button", { class: "primary" }, "Answer"));
  }

  approval(task, log) {
    const reason = h("input", { "aria-label": "Your reason", placeholder: "A reason, if you deny" });
    const say = (word) => async (event) => {
      event.preventDefault();
      const text = decision(task.input_request, word, word === "deny" ? reason.value : "");
      await request("POST", `/v1/tasks/${task.id}/answer`, { text });
      await this.draw(task.id, log);
    };
    return h(
      "form", { class: "question", onsubmit: say("deny") },
      h("p", {}, task.question), reason,
      h("button", { type: "button", class: "primary", onclick: say("approve") }, "Approve"),
      h("button", {}, "Deny"),
    );
  }
}

function decision({ id, calls }, word, reason) {
  const seen = calls.length === 1 ? { digest: calls[0].digest } : {};
  return JSON.stringify({ id, ...seen, decision: word, ...(reason ? { text: reason } : {}) });
}

function brief({ id, state, agent, input, created_at: created, updated_at: updated }) {
  return { id, state, agent, input: input.slice(0, 200), created_at: created, updated_at: updated };
}

function entry({ event_type: kind, payload, timestamp }) {
  let text = kind;
  if (payload.state) text = payload.state.replace("_", " ");
  else if (payload.tool) text = `tool ${payload.tool}`;
  else if (payload.question) text = `asks: ${payload.question}`;
  else if (payload.answer) text = `answer: ${payload.answer}`;
  else if (payload.step) text = `step ${payload.step} of ${payload.agent}`;
  return h("li", {}, h("time", {}, when(timestamp)), ` ${text}`);
}
