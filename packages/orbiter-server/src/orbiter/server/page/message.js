// One exchange: what the user said and showed, and what the agent said and did.

import { image } from "./api.js";
import { h, pretty, seconds } from "./dom.js";
import { show } from "./markdown.js";

export class Message {
  constructor(run, onTrace) {
    this.run = run;
    this.body = h("div", { class: "body" });
    this.foot = h("button", { class: "quiet foot", "aria-pressed": "false", onclick: onTrace }, "Trace");
    this.parts = new Map();
    this.element = h(
      "article", { class: "exchange", "aria-label": run.info.input.slice(0, 80) || "Image" },
      h(
        "div", { class: "said user" }, h("span", { class: "who" }, "You"), this.images(),
        run.info.input && h("p", {}, run.info.input),
      ),
      h("div", { class: "said agent" }, h("span", { class: "who" }, run.info.agent), this.body, this.foot),
    );
    this.draw();
  }

  images() {
    const shown = this.run.info.images ?? [];
    if (!shown.length) return null;
    return h("div", { class: "images" }, shown.map((_, number) => {
      const element = h("img", { alt: `Image ${number + 1}` });
      image(`/v1/runs/${this.run.info.id}/images/${number}`)
        .then((url) => { element.src = url; })
        .catch((error) => { element.alt = `Image ${number + 1} cannot be shown: ${error.message}`; });
      return element;
    }));
  }

  mark(traced) {
    this.foot.setAttribute("aria-pressed", String(traced));
  }

  draw() {
    const { run } = this;
    const wanted = run.parts.map((part) => this.part(part));
    if (run.error) wanted.push(this.note("problem", `Failed: ${run.error}`));
    else if (run.stopped) wanted.push(this.note("problem", `Not the whole answer: ${run.stopped}`));
    else if (run.status === "cancelled") wanted.push(this.note("empty", "Stopped."));
    else if (run.status === "running" && run.parts.at(-1)?.kind !== "text") wanted.push(this.waiting());
    // keep what is there already: a selection, an opened tool call
    wanted.forEach((element, at) => {
      if (this.body.children[at] !== element) this.body.insertBefore(element, this.body.children[at] ?? null);
    });
    while (this.body.children.length > wanted.length) this.body.lastElementChild.remove();
    this.element.classList.toggle("working", run.status === "running");
    if (run.end) {
      const tokens = run.outcome.usage?.total_tokens;
      const told = ["Trace", seconds(run.end - run.begin), tokens && `${tokens} tokens`];
      this.foot.textContent = told.filter(Boolean).join(" · ");
    }
  }

  part(part) {
    let element = this.parts.get(part);
    if (!element) {
      element = this.create(part);
      this.parts.set(part, element);
    }
    if (part.kind === "text") show(element, part.text);
    else if (part.kind === "call") this.update(element, part);
    return element;
  }

  create(part) {
    switch (part.kind) {
      case "text": return h("div", { class: "prose" });
      case "handoff": return h("p", { class: "handoff" }, `${part.agent} handed over to ${part.target}`);
      case "data": return h("pre", { tabIndex: 0 }, JSON.stringify(part.value, null, 2));
      default: return h(
        "details", { class: "call" },
        h("summary", {}, h("span", { class: "state" }), h("code", {}, part.name), h("span", { class: "brief" }), h("span", { class: "time" })),
        h("h4", {}, "Arguments"), h("pre", { tabIndex: 0 }, pretty(part.arguments)),
        h("h4", {}, "Result"), h("pre", { tabIndex: 0, class: "result" }, "…"),
      );
    }
  }

  update(element, call) {
    const failed = Boolean(call.error);
    const state = call.end === null ? "running" : failed ? "failed" : "done";
    element.querySelector(".state").className = `state ${state}`;
    element.querySelector(".state").textContent = { running: "calling", failed: "failed", done: "called" }[state];
    element.querySelector(".brief").textContent = brief(call.arguments);
    if (call.end === null) return;
    element.querySelector(".time").textContent = seconds(call.end - call.begin);
    element.querySelector(".result").textContent = call.error ?? pretty(call.content);
    if (call.files && !element.querySelector(".images")) element.append(files(call.files));
  }

  note(kind, text) {
    this.noted ??= h("p", {});
    this.noted.className = kind;
    this.noted.textContent = text;
    return this.noted;
  }

  waiting() {
    this.dots ??= h("p", { class: "dots", "aria-label": "at work" }, h("i"), h("i"), h("i"));
    return this.dots;
  }
}

// What a tool gave besides text: its images, and of the rest that it is there.
function files(parts) {
  return h("div", { class: "images" }, parts.map((part, at) => {
    const name = part.name ?? part.url ?? `${part.type} ${at + 1}`;
    if (!part.data || !/^image\/(png|jpeg|gif|webp)$/.test(part.media_type)) return h("p", {}, name);
    const bytes = Uint8Array.from(atob(part.data), (letter) => letter.charCodeAt(0));
    return h("img", { src: URL.createObjectURL(new Blob([bytes], { type: part.media_type })), alt: `Image ${at + 1}` });
  }));
}

function brief(text) {
  try {
    const values = Object.entries(JSON.parse(text || "{}"));
    const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    return values.map(([name, value]) => `${name}: ${plain(value)}`).join(", ").slice(0, 120);
  } catch {
    return text.slice(0, 120);
  }
}
