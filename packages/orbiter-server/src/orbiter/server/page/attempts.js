// The attempts of a task as a timeline: a list of buttons, each with a bar that shows when.

import { badge, h, seconds, when } from "./dom.js";

const WORDS = { success: "completed", error: "failed", timeout: "failed" };

export class Attempts {
  // `onChoose(number)` is told which attempt somebody wants to see.
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.list = h("ol", { class: "attempts", "aria-label": "Attempts" });
    this.note = h("p", { class: "fine" });
    this.element = h("div", { class: "timeline", hidden: true }, this.list, this.note);
    this.list.addEventListener("keydown", (event) => this.pressed(event));
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.element.hidden = true;
    this.drawn = "";
    this.shown = 0;
  }

  show({ items, earlier, problem }, name) {
    this.element.hidden = !items.length;
    const told = JSON.stringify(items);
    this.note.textContent = [
      earlier ? `${earlier.toLocaleString()} earlier attempts are not shown: kubectl orbiter transcript ${name} --attempt N` : "",
      problem,
    ].filter(Boolean).join(". ");
    if (told === this.drawn) return;
    this.drawn = told;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.value : null;
    const span = spanOf(items);
    this.list.replaceChildren(...items.map((each) => h("li", {}, this.button(each, span))));
    this.mark(this.shown);
    if (focused) this.button_of(focused)?.focus();
  }

  button(attempt, span) {
    const { number, outcome, reason, message, disruptions } = attempt;
    const bar = h("span", { class: `bar ${WORDS[outcome] ?? outcome}` });
    const [start, length] = placeOf(attempt, span);
    bar.style.setProperty("--start", `${start}%`);
    bar.style.setProperty("--length", `${length}%`);
    const facts = [
      began(attempt), took(attempt),
      attempt.cost_usd === null ? "" : `${attempt.cost_usd.toFixed(4)} USD`,
      disruptions ? `${disruptions} disruption${disruptions === 1 ? "" : "s"}` : "",
      attempt.checkpoint_at ? `checkpoint ${when(attempt.checkpoint_at)}, turn ${attempt.checkpoint_turns}` : "",
    ];
    return h(
      "button", { type: "button", value: String(number), tabIndex: -1, onclick: () => this.choose(number) },
      h("span", { class: "name" }, `Attempt ${number} `), badge(WORDS[outcome] ?? (outcome || "not told")),
      reason && outcome !== "success" ? h("span", { class: "why", title: message }, ` ${reason} `) : null,
      h("span", { class: "fine" }, facts.filter(Boolean).join(" · ")),
      h("span", { class: "track", "aria-hidden": "true" }, bar),
    );
  }

  // Which one is shown: it alone is reached by Tab, the others by the arrows.
  mark(number) {
    this.shown = number;
    const buttons = [...this.list.querySelectorAll("button")];
    const current = this.button_of(number) ?? buttons.at(-1);
    for (const each of buttons) {
      each.tabIndex = each === current ? 0 : -1;
      if (Number(each.value) === number) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  }

  choose(number) {
    this.mark(number);
    this.onChoose(number);
  }

  button_of(number) {
    return this.list.querySelector(`button[value="${Number(number)}"]`);
  }

  pressed(event) {
    const buttons = [...this.list.querySelectorAll("button")];
    const at = buttons.indexOf(event.target);
    const target = { ArrowDown: buttons[at + 1], ArrowUp: buttons[at - 1], Home: buttons[0], End: buttons.at(-1) };
    if (at < 0 || !(event.key in target)) return;
    event.preventDefault();
    target[event.key]?.focus();
  }
}

function began({ began_at: at, began_before: before }) {
  return at ? `began ${before ? "before " : ""}${when(at)}` : "";
}

function took({ began_at: from, began_before: before, ended_at: to }) {
  if (!from || !to) return "";
  return `took ${before ? "more than " : ""}${seconds(Math.max(Date.parse(to) - Date.parse(from), 0) / 1000)}`;
}

// From the first moment that is known of the task to the last, in milliseconds.
function spanOf(items) {
  const known = items.flatMap((each) => [each.began_at, each.ended_at]).filter(Boolean).map(Date.parse);
  if (items.some((each) => each.outcome === "running")) known.push(Date.now());
  const first = Math.min(...known);
  return { first, length: Math.max(Math.max(...known) - first, 1) };
}

function placeOf({ began_at: from, ended_at: to, outcome }, { first, length }) {
  if (!from) return [0, 0];
  const start = Date.parse(from);
  const end = to ? Date.parse(to) : outcome === "running" ? Date.now() : start;
  return [start - first, Math.max(end - start, 0)].map((each) => (100 * each) / length);
}
