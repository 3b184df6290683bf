// The chat: one conversation, its runs as they happen, and the trace of each.

import { follow, request } from "./api.js";
import { announce, h } from "./dom.js";
import { Images } from "./images.js";
import { Message } from "./message.js";
import { Run } from "./run.js";
import { Sessions } from "./sessions.js";
import { Tree } from "./tree.js";

const SHOWN = 20;

export class Chat {
  constructor(agents) {
    this.agents = agents;
    this.sessions = new Sessions();
    this.tree = new Tree("Trace of the run");
    this.tree.onToggle = () => this.traced && this.tree.show(this.traced.run.tree());
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Conversation", tabIndex: 0 });
    this.status = h("p", { class: "status", role: "status" });
    this.images = new Images((error) => this.problem(error));
    this.text = h("textarea", {
      id: "composer", rows: 1, placeholder: "Message …", "aria-label": "Message",
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.form.requestSubmit();
        }
      },
      onpaste: (event) => this.images.takeFrom(event, event.clipboardData),
    });
    this.agent = h("select", { "aria-label": "Agent" }, agents.map(({ name }) => h("option", { value: name }, name)));
    this.sending = h("button", { class: "primary" }, "Send");
    this.stopping = h("button", { type: "button", hidden: true, onclick: () => this.stop() }, "Stop");
    this.form = h(
      "form", { class: "composer", onsubmit: (event) => this.send(event) },
      this.images.input, this.images.button, this.text, this.agent, this.sending, this.stopping,
    );
    this.trace = h("section", { class: "trace", "aria-label": "Trace" }, h("h2", {}, "Trace"), this.tree.element);
    this.element = h(
      "div", { class: "chat" },
      h(
        "aside", { class: "side" },
        h("button", { class: "new", onclick: () => { location.hash = "#/chat"; this.text.focus(); } }, "New conversation"),
        this.sessions.element,
      ),
      h(
        "section", {
          class: "talk", "aria-label": "Chat",
          ondragover: (event) => event.preventDefault(),
          ondrop: (event) => this.images.takeFrom(event, event.dataTransfer),
        },
        this.log, this.status, this.images.list, this.form,
      ),
      this.trace,
    );
    this.clear();
  }

  async enter(id) {
    if (id && id === this.id) return;
    this.clear();
    this.id = id ?? null;
    this.sessions.mark(this.id);
    this.sessions.reload().catch(() => {});
    if (!id) {
      this.text.focus();
      return;
    }
    try {
      const session = await request("GET", `/v1/sessions/${id}`);
      if (this.id !== id) return;
      this.agent.value = session.agent;
      this.agent.disabled = true;
      const runs = session.runs.slice(-SHOWN);
      if (runs.length < session.runs.length) {
        const hidden = session.runs.length - runs.length;
        this.log.append(h("p", { class: "empty" }, `${hidden} earlier messages are not shown`));
      }
      const followed = runs.map((run) => this.follow(run));
      if (followed.length) this.showTrace(this.messages.at(-1));
      await Promise.all(followed);
    } catch (error) {
      if (this.id === id) this.problem(error);
    }
  }

  leave() {}

  clear() {
    this.following?.abort();
    this.following = new AbortController();
    this.messages = [];
    this.traced = null;
    this.running = null;
    this.id = null;
    this.log.replaceChildren();
    this.agent.disabled = false;
    this.status.textContent = "";
    this.trace.hidden = true;
    this.busy(false);
  }

  busy(is) {
    this.sending.hidden = is;
    this.stopping.hidden = !is;
  }

  async send(event) {
    event.preventDefault();
    const input = this.text.value.trim();
    if ((!input && !this.images.chosen.length) || this.running || this.starting) return;
    this.starting = true;
    this.text.value = "";
    const images = this.images.take();
    const said = { input, images: images.map(({ url }) => url) };
    // an answer is to what is shown, whatever another window has made of it meanwhile
    const waiting = this.messages.at(-1)?.run.waiting;
    if (waiting) said.request_id = waiting.id;
    try {
      let run;
      if (this.id) run = await request("POST", `/v1/sessions/${this.id}/runs`, said);
      else run = await request("POST", `/v1/agents/${encodeURIComponent(this.agent.value)}/runs`, said);
      this.starting = false;
      for (const { shown } of images) URL.revokeObjectURL(shown);
      if (!this.id) {
        this.id = run.session_id;
        this.agent.disabled = true;
        history.replaceState(null, "", `#/chat/${this.id}`);
        this.sessions.current = this.id;
        this.sessions.reload().catch(() => {});
      }
      const done = this.follow(run);
      this.showTrace(this.messages.at(-1));
      this.toBottom();
      await done;
    } catch (error) {
      if (this.starting) {
        this.text.value ||= input;
        this.images.giveBack(images);
      }
      this.starting = false;
      this.problem(error);
    }
  }

  async follow(info) {
    const run = new Run(info);
    const message = new Message(run, () => this.showTrace(message));
    this.messages.push(message);
    this.log.append(message.element);
    const live = info.status === "running";
    if (live) {
      this.running = info;
      this.busy(true);
      this.status.textContent = `${info.agent} is at work …`;
    }
    await follow(`/v1/runs/${info.id}/events`, {
      signal: this.following.signal,
      isLast: (event) => event.type === "end",
      onState: (state) => {
        if (!live) return;
        this.status.textContent = state === "connected"
          ? `${info.agent} is at work …`
          : "Connection lost, trying again …";
      },
      onEvent: (event) => {
        run.apply(event);
        this.later(message);
      },
    });
    if (run.status === "running") return;
    message.draw();
    if (this.traced === message) this.tree.show(run.tree());
    if (live && this.running === info) {
      this.running = null;
      this.busy(false);
      this.status.textContent = "";
      announce(run.error ? `${info.agent} failed: ${run.error}` : `${info.agent}: ${run.text}`);
      if (this.id === info.session_id) this.toBottom();
    }
  }

  // At most once a frame, however fast the words come.
  later(message) {
    this.changed ??= new Set();
    this.changed.add(message);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      const near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 80;
      for (const one of this.changed) one.draw();
      if (this.changed.has(this.traced)) this.tree.show(this.traced.run.tree());
      this.changed.clear();
      if (near) this.toBottom();
    });
  }

  toBottom() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  showTrace(message) {
    this.traced = message;
    this.trace.hidden = false;
    for (const other of this.messages) other.mark(other === message);
    this.tree.show(message.run.tree());
  }

  async stop() {
    if (!this.running) return;
    await request("POST", `/v1/runs/${this.running.id}/cancel`).catch((error) => this.problem(error));
  }

  problem(error) {
    if (error.name !== "AbortError") this.status.textContent = error.message;
  }
}
