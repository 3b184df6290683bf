// What a task or a session asks, and the way to answer it: here, where the viewer may, else by a command.

import { request } from "./api.js";
import { h } from "./dom.js";

export const kindOf = ({ kind }) => (kind === "session" ? "sessions" : "tasks");
export const pathOf = (item) => `/v1/cluster/${kindOf(item)}/${encodeURIComponent(item.namespace)}/${encodeURIComponent(item.name)}`;

// `onDone` is told when the answer is on its way.
export function questionOf(item, onDone) {
  const approval = item.calls.length > 0;
  return h(
    "div", { class: "question" },
    item.question ? h("p", {}, item.question) : null,
    item.calls.map(({ tool, arguments: given }) => h(
      "div", {}, h("p", { class: "fine" }, "Wants to call ", h("code", {}, tool)), h("pre", { tabIndex: 0 }, given),
    )),
    item.calls_cut ? h(
      "p", { class: "problem" }, "This is not all of it, and so it cannot be approved here: ",
      h("code", {}, `kubectl get agenttask ${item.name} -n ${item.namespace} -o yaml`), " shows the rest.",
    ) : null,
    item.actions.includes("answer") ? form(item, approval, onDone) : h(
      "p", { class: "fine" }, "Answered by ", h("code", {}, commandOf(item)),
    ),
  );
}

function commandOf({ kind, namespace, name }) {
  return kind === "session" ? `kubectl orbiter inbox -n ${namespace}` : `kubectl orbiter answer ${name} -n ${namespace} TEXT`;
}

function form(item, approval, onDone) {
  const problem = h("p", { class: "problem", role: "alert" });
  const text = h("textarea", {
    rows: 2, required: !approval, maxLength: 65536,
    "aria-label": `${approval ? "Reason" : "Answer"} for ${item.name}`, placeholder: approval ? "Reason, if you deny …" : "Answer …",
  });
  const send = async (said) => {
    for (const button of buttons) button.disabled = true;
    problem.textContent = "";
    try {
      await request("POST", `${pathOf(item)}/answer`, { id: item.question_id, text: said });
      onDone();
    } catch (error) {
      problem.textContent = error.message;
      for (const button of buttons) button.disabled = false;
    }
  };
  const buttons = approval
    ? [
      ...(item.calls_cut ? [] : [h("button", { class: "primary", type: "button", onclick: () => send("approve") }, "Approve")]),
      h("button", { type: "button", onclick: () => send(`deny ${text.value.trim()}`.trim()) }, "Deny"),
    ]
    : [h("button", { class: "primary" }, "Answer")];
  const submitted = (event) => {
    event.preventDefault();
    if (!approval && text.value.trim()) send(text.value);
  };
  return h("form", { onsubmit: submitted }, text, h("div", { class: "buttons" }, buttons), problem);
}
