// What an agent of the cluster says and does, event by event, as it is told.

import { h, pretty, seconds } from "./dom.js";
import { show } from "./markdown.js";

const MOST = 3000;
// Of all that is shown, and of one text: what is more goes in front, and goes on in another.
const MOST_CHARACTERS = 1000000;
const LONGEST = 16384;
const BRIEF = 160;

export class Transcript {
  constructor() {
    this.log = h("div", { class: "transcript", role: "log", "aria-label": "Transcript", tabIndex: 0 });
    this.clear();
  }

  clear() {
    this.log.replaceChildren();
    this.calls = new Map();
    this.latest = null;
    this.weight = 0;
    this.piece = null;
    this.usage = null;
    this.cost = null;
  }

  // Whether the reader is at the end, and so wants to see what comes.
  get atEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 40;
  }

  add(event) {
    this.follow();
    this.cost = event.cost_usd ?? this.cost;
    this.take(event);
    while (this.log.children.length > MOST || this.weight > MOST_CHARACTERS) this.drop(this.log.firstElementChild);
  }

  // Once a frame: to ask where the end is lays out all that is shown, and events come by the thousand.
  follow() {
    if (this.frame) return;
    const follows = this.atEnd;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      if (follows) this.log.scrollTop = this.log.scrollHeight;
    });
  }

  weigh(element, characters) {
    this.weight += characters;
    element.weight = (element.weight ?? 0) + characters;
  }

  drop(element) {
    this.weight -= element.weight;
    if (this.calls.get(element.call) === element) this.calls.delete(element.call);
    if (this.latest === element) this.latest = null;
    if (this.piece?.element === element) this.piece = null;
    element.remove();
  }

  take(event) {
    if (event.type === "text" || event.type === "thinking") return this.say(event);
    if (event.type === "usage") {
      this.usage = event.usage;
      return undefined;
    }
    this.piece = null;
    switch (event.type) {
      case "message": return this.asked(event.text);
      case "tool_call": return this.call(event);
      case "tool_result": return this.result(event);
      case "input_request": return this.note("asks", `Asks: ${event.question}`);
      case "error": return this.note("problem", event.error);
      case "verdict": return this.note(event.status === "success" ? "good" : "problem", verdict(event));
      case "cut": return this.note("soft", event.events ? `… ${event.events} events are missing here` : "… some events are missing here");
      default: return undefined;
    }
  }

  // A piece goes on with the one before, unless it begins a text of its own.
  say({ type, text, opens, agent_name: agent = "" }) {
    const goesOn = this.piece?.type === type && this.piece.agent === agent && !opens
      && this.piece.text.length < LONGEST;
    if (!goesOn) {
      const element = h("div", { class: type === "thinking" ? "thinking" : "prose" });
      if (agent) this.note("soft", agent);
      this.log.append(element);
      this.piece = { type, agent, text: "", element };
    }
    this.piece.text += text;
    this.weigh(this.piece.element, text.length);
    if (type === "thinking") this.piece.element.textContent = this.piece.text;
    else show(this.piece.element, this.piece.text);
  }

  call({ tool_name: name, tool_call_id: id, arguments: given = "" }) {
    const element = h(
      "details", { class: "call" },
      h(
        "summary", {}, h("span", { class: "state" }, "…"), h("code", {}, name),
        h("span", { class: "brief" }, target(given)), h("span", { class: "time" }),
      ),
      given && h("h4", {}, "Arguments"), given && h("pre", { tabIndex: 0 }, pretty(given)),
    );
    this.log.append(element);
    this.weigh(element, name.length + given.length);
    element.call = id;
    if (id) this.calls.set(id, element);
    this.latest = element;
  }

  result({ tool_call_id: id, tool_name: name, content = "", error, seconds: took }) {
    let element = this.calls.get(id) ?? (id ? null : this.latest);
    if (!element) {
      this.call({ tool_name: name || "a tool", tool_call_id: id });
      element = this.latest;
    }
    // it has its answer: another one under this name is of another call
    this.calls.delete(id);
    if (this.latest === element) this.latest = null;
    const failed = error !== undefined && error !== null;
    const state = element.querySelector(".state");
    state.textContent = failed ? "failed" : "done";
    state.className = `state ${failed ? "failed" : "done"}`;
    if (took !== undefined && took !== null) element.querySelector(".time").textContent = seconds(took);
    const said = failed ? error : content;
    if (said) element.append(h("h4", {}, failed ? "Error" : "Result"), h("pre", { tabIndex: 0 }, said));
    this.weigh(element, said.length);
  }

  asked(text) {
    const element = h("div", { class: "said user" }, h("p", { class: "who" }, "User"), h("p", {}, text));
    this.log.append(element);
    this.weigh(element, text.length);
  }

  note(kind, text) {
    const element = h("p", { class: kind }, text);
    this.log.append(element);
    this.weigh(element, text.length);
  }
}

function verdict({ status, reason, text }) {
  return [status === "success" ? "Done" : status.replace("_", " "), reason, text].filter(Boolean).join(": ");
}

// What a tool works on, in a few words: the first text of its arguments.
function target(text) {
  let found = text;
  try {
    found = Object.values(JSON.parse(text)).find((value) => typeof value === "string") ?? "";
  } catch { /* cut off: as it is */ }
  return found.replace(/\s+/g, " ").slice(0, BRIEF);
}
