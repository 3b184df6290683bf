// One task or session of the cluster: how it stands, and its transcript.

import { actionsOf } from "./actions.js";
import { follow, request } from "./api.js";
import { Artifacts } from "./artifacts.js";
import { Attempts } from "./attempts.js";
import { badge, fill, h, when } from "./dom.js";
import { show } from "./markdown.js";
import { questionOf } from "./question.js";
import { Spec } from "./spec.js";
import { Transcript } from "./transcript.js";

export class Work {
  constructor() {
    this.transcript = new Transcript();
    this.problem = h("p", { class: "soft", role: "status" });
    this.facts = h("div", {});
    this.spec = new Spec();
    this.artifacts = new Artifacts();
    // the latest is gone on with by the one behind it, an earlier one is not
    this.attempts = new Attempts((number) => this.listen(number, number === this.item?.attempts));
    this.element = h(
      "section", { class: "detail work", "aria-label": "Details", hidden: true },
      h("div", { class: "facts" }, this.facts, this.artifacts.element, this.spec.element),
      this.attempts.element, h("h3", {}, "Transcript"), this.problem, this.transcript.log,
    );
  }

  get path() {
    const [kind, namespace, name] = this.shown;
    return `/v1/cluster/${kind}/${namespace}/${name}`;
  }

  async open(kind, namespace, name) {
    const shown = [kind, namespace, name].map(encodeURIComponent);
    if (shown.join("/") === this.shown?.join("/")) return;
    this.close();
    this.shown = shown;
    this.element.hidden = false;
    fill(this.facts, h("p", { class: "empty" }, "Loading …"));
    await this.refresh();
  }

  close() {
    this.following?.abort();
    this.shown = this.item = this.drawn = this.heard = null;
    this.chosen = this.question = this.timed = null;
    this.rested = false;
    this.clear();
    this.problem.textContent = "";
    this.element.hidden = true;
  }

  clear() {
    for (const part of [this.transcript, this.attempts, this.spec, this.artifacts]) part.clear();
  }

  async refresh() {
    const { shown } = this;
    if (!shown) return;
    let item;
    try {
      item = await request("GET", this.path);
    } catch (error) {
      if (shown !== this.shown) return;
      // what may not be seen any more is not left on the screen
      if (error.status < 500) {
        this.following?.abort();
        this.clear();
        this.heard = this.drawn = this.timed = null;
        fill(this.facts, this.head({ name: decodeURIComponent(shown[2]) }), h("p", { class: "problem", role: "alert" }, error.message));
      }
      return;
    }
    if (shown !== this.shown) return;
    this.item = item;
    this.draw(item);
    if (shown[0] === "tasks") {
      this.time(item);
      this.spec.refresh(this.path, item.generation);
      this.artifacts.refresh(this.path, item);
    }
    const latest = shown[0] === "tasks" ? item.attempts : 0;
    if (shown[0] === "tasks" && !latest) this.problem.textContent = "No attempt has begun yet.";
    else if (this.heard === null || (this.chosen === null && latest !== this.heard)) this.listen(latest, true);
    // a verdict that nobody else has heard, Redis lost it say: the same attempt goes on behind it
    else if (this.rested && latest === this.heard && item.phase === "Running") this.hear(latest);
  }

  head(item) {
    const filter = location.hash.split("/")[2] ?? "";
    return h(
      "header", {}, h("h2", {}, item.name, " ", item.phase ? badge(item.phase) : null),
      h("a", { href: `#/cluster/${filter}`, class: "close", "aria-label": "Close the details" }, "✕"),
    );
  }

  draw(item) {
    const drawn = JSON.stringify(item);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const result = h("div", { class: "prose" });
    if (item.summary) show(result, item.summary);
    const open = this.facts.querySelector("details")?.open;
    // kept as it is while the question is: somebody may be typing
    if (!item.question_id) this.question = null;
    else if (this.question?.of !== `${item.question_id} ${item.actions}`) {
      const kind = this.shown[0] === "sessions" ? "session" : "task";
      this.question = { of: `${item.question_id} ${item.actions}`, element: questionOf({ ...item, kind }, () => this.refresh()) };
    }
    const acted = ({ namespace, name }) => {
      if (name === item.name) this.refresh();
      else location.hash = `#/cluster/${location.hash.split("/")[2] ?? ""}/tasks/${namespace}/${name}`;
    };
    fill(
      this.facts, this.head(item),
      h("p", { class: "fine" }, facts(item).join(" · ")),
      item.over || item.question_id ? null : h("p", {}, item.progress || item.message),
      this.question?.element,
      item.over && item.phase !== "Completed" ? h("p", { class: "problem" }, item.message) : null,
      item.summary ? result : null,
      item.pull_request ? h("p", {}, h("a", { href: item.pull_request, rel: "noopener noreferrer", target: "_blank" }, "Pull request")) : null,
      actionsOf(item, acted),
      item.prompt ? h("details", { open }, h("summary", {}, "Prompt"), h("p", { class: "input" }, item.prompt)) : null,
    );
  }

  // The timeline, read again when something has become of an attempt, and not at each look.
  async time(item) {
    const { shown } = this;
    const { attempts, phase, reason, ended_at: ended, cost_usd: cost, disruptions } = item;
    const now = JSON.stringify([attempts, phase, reason, ended, cost, disruptions, this.verdicts]);
    if (!attempts || now === this.timed) return;
    this.timed = now;
    try {
      const found = await request("GET", `${this.path}/attempts`);
      if (shown === this.shown && now === this.timed) this.attempts.show(found, item.name);
    } catch {
      if (now === this.timed) this.timed = null; // the next time
    }
  }

  // Follow the transcript of an attempt; a session has none, which is 0.
  async listen(attempt, latest = false) {
    this.heard = attempt;
    this.chosen = latest ? null : attempt;
    this.seen = 0;
    this.rested = false;
    this.attempts.mark(attempt);
    this.transcript.clear();
    await this.hear(attempt);
  }

  // Go on behind the last event that was heard.
  async hear(attempt) {
    this.following?.abort();
    const following = new AbortController();
    this.following = following;
    const again = this.rested;
    this.rested = false;
    this.problem.textContent = "";
    try {
      await follow(`${this.path}/transcript${attempt ? `?attempt=${attempt}` : ""}`, {
        after: this.seen,
        signal: following.signal,
        isLast: (event) => event.type === "verdict" && event.attempt > 0,
        onEvent: (event) => {
          if (following.signal.aborted) return;
          this.seen = event.seq;
          this.transcript.add(event);
          if (event.type === "verdict") this.verdicts = (this.verdicts ?? 0) + 1;
        },
        onState: (state) => {
          const over = this.item && (this.item.over || (attempt && attempt < this.item.attempts));
          if (state === "reconnecting" && (again || over)) following.abort();
        },
      });
      if (this.following === following) this.rested = true;
    } catch (error) {
      if (!following.signal.aborted) this.problem.textContent = error.message;
    }
  }
}

function facts(item) {
  const told = [[item.agent, item.model].filter(Boolean).join(" ")];
  if (item.attempts > 1) told.push(`${item.attempts} attempts`);
  if (item.disruptions) told.push(`${item.disruptions} disruption${item.disruptions === 1 ? "" : "s"}`);
  if (item.started_at) told.push(`began ${when(item.started_at)}`);
  if (item.ended_at) told.push(`ended ${when(item.ended_at)}`);
  if (item.cost_usd !== null) told.push(`${item.cost_usd.toFixed(4)} USD`);
  if (item.input_tokens || item.output_tokens) told.push(`${item.input_tokens.toLocaleString()} + ${item.output_tokens.toLocaleString()} tokens`);
  if (item.commit) told.push(`commit ${item.commit.slice(0, 12)}`);
  return told.filter(Boolean);
}
