// A run put together from its events: what the chat shows, and the tree of what happened.

function escaped(sign) {
  return sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

function asked({ kind, text, calls }) {
  if (kind === "question") return text;
  const shown = calls.map((call) => `${call.tool} ${JSON.stringify(call.arguments)}`).join(", ")
    // what hides letters, turns them around or would end the code here is shown as what it is
    .replace(/[\p{Cf}\p{Cc}\p{Zl}\p{Zp}`]/gu, escaped);
  return `May it call \`${shown}\` ? Answer approve, or deny and a reason.`;
}

export class Run {
  constructor(info) {
    this.info = info;
    this.status = "running";
    this.events = [];
    this.seen = 0;
    this.rebuild([]);
  }

  apply(event) {
    this.seen = event.seq;
    if (event.type === "resumed") {
      // what a dead server had not finished is done again: it does not count
      this.rebuild(this.events.filter((earlier) => earlier.seq <= event.kept));
      return;
    }
    this.events.push(event);
    this.take(event);
  }

  rebuild(events) {
    this.events = events;
    this.parts = [];
    this.turns = [];
    this.calls = new Map();
    this.step = null;
    this.error = null;
    this.stopped = null;
    this.shown = new Set();
    this.waiting = null;
    this.begin = events[0]?.at ?? null;
    this.end = null;
    for (const event of events) this.take(event);
  }

  take(event) {
    this.begin ??= event.at;
    this.latest = event.at;
    switch (event.type) {
      case "step": return this.takeStep(event);
      case "text": return this.takeText(event);
      case "tool_call": return this.takeCall(event);
      case "tool_result": return this.takeResult(event);
      case "usage":
        if (this.step) Object.assign(this.step, { usage: event.usage, modelEnd: event.at });
        break;
      case "input_request":
        this.ask(event.request, event.agent_name);
        break;
      case "handoff":
        this.parts.push({ kind: "handoff", target: event.target, agent: event.agent_name });
        break;
      case "error": this.error = event.error; break;
      case "end":
        this.status = event.status;
        this.end = event.at;
        this.outcome = event;
        this.error = event.error ?? this.error;
        if (event.status === "completed" && event.stop_reason !== "completed") {
          this.stopped = event.stop_reason ?? null;
        }
        this.closeStep(event.at);
        // the next message answers this one: it must be seen, also where a run failed and asks again
        this.waiting = event.input_requests?.[0] ?? null;
        if (this.waiting && !this.shown.has(this.waiting.id)) this.ask(this.waiting, this.info.agent);
        if (event.status === "completed" && typeof event.output === "object" && event.output) {
          this.parts.push({ kind: "data", value: event.output });
        }
        break;
      default:
    }
    return undefined;
  }

  ask(request, agent) {
    this.shown.add(request.id);
    this.parts.push({ kind: "text", text: asked(request), agent });
  }

  takeStep(event) {
    this.closeStep(event.at);
    let turn = this.turns.at(-1);
    if (turn?.agent !== event.agent_name) {
      turn = { agent: event.agent_name, begin: event.at, steps: [] };
      this.turns.push(turn);
    }
    this.step = { number: event.step, begin: event.at, calls: [], text: "" };
    turn.steps.push(this.step);
  }

  closeStep(at) {
    if (this.step) this.step.end ??= at;
    const turn = this.turns.at(-1);
    if (turn) turn.end = at;
  }

  takeText(event) {
    let part = this.parts.at(-1);
    if (part?.kind !== "text" || part.agent !== event.agent_name || part.step !== this.step) {
      part = { kind: "text", text: "", agent: event.agent_name, step: this.step };
      this.parts.push(part);
    }
    part.text += event.text;
    if (this.step) this.step.text += event.text;
  }

  takeCall(event) {
    const call = {
      kind: "call", id: event.tool_call_id, name: event.tool_name, arguments: event.arguments,
      begin: event.at, end: null, content: null, error: null,
    };
    this.calls.set(call.id, call);
    this.parts.push(call);
    this.step?.calls.push(call);
  }

  takeResult(event) {
    const call = this.calls.get(event.tool_call_id);
    if (call) Object.assign(call, { end: event.at, content: event.content, error: event.error, files: event.parts });
  }

  get text() {
    return this.parts.filter((part) => part.kind === "text").map((part) => part.text).join("\n\n");
  }

  // The tree: run, agents, steps, model calls and tools; times in seconds from the run's begin.
  tree() {
    const begin = this.begin ?? 0;
    const now = this.end ?? this.latest ?? begin;
    const node = (key, kind, label, from, to, children = [], more = {}) => ({
      key, kind, label, start: from - begin, duration: Math.max((to ?? now) - from, 0), children,
      ...more,
    });
    const turns = this.turns.map((turn, t) => node(
      `t${t}`, "agent", turn.agent, turn.begin, turn.end,
      turn.steps.map((step, s) => node(
        `t${t}s${s}`, "step", `Step ${step.number}`, step.begin, step.end,
        [
          node(`t${t}s${s}m`, "model", "Model call", step.begin, step.modelEnd ?? step.end, [], {
            note: step.usage && `${step.usage.input_tokens} + ${step.usage.output_tokens} tok`,
          }),
          ...step.calls.map((call) => node(
            `t${t}s${s}${call.id}`, "tool", call.name, call.begin, call.end, [],
            { note: call.error ? "failed" : null, failed: Boolean(call.error) },
          )),
        ],
      )),
    ));
    const usage = this.outcome?.usage;
    return node("run", "run", this.status === "running" ? "Run" : `Run ${this.status}`, begin, now, turns, {
      failed: this.status === "failed", note: usage && `${usage.total_tokens} tok`,
    });
  }
}
