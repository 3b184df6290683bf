// What a viewer may do with a task: cancel it, or do it once more.

import { request } from "./api.js";
import { h } from "./dom.js";
import { pathOf } from "./question.js";

const WORDS = { cancel: "Cancel", retry: "Do it again", resume: "Go on from its checkpoint" };
const SURE_MS = 5000;

// `onDone` is given the task that was changed, or made.
export function actionsOf(item, onDone) {
  const wanted = item.actions.filter((action) => action in WORDS);
  if (!wanted.length) return null;
  const problem = h("p", { class: "problem", role: "alert" });
  const act = async (action, button) => {
    button.disabled = true;
    problem.textContent = "";
    try {
      const cancels = action === "cancel";
      const body = cancels ? undefined : { resume: action === "resume" };
      onDone(await request("POST", `${pathOf(item)}/${cancels ? "cancel" : "retry"}`, body));
    } catch (error) {
      problem.textContent = error.message;
      button.disabled = false;
    }
  };
  // what cannot be taken back, or costs money, is pressed twice
  const buttons = wanted.map((action) => {
    const button = h("button", { type: "button" }, WORDS[action]);
    let sure = null;
    button.addEventListener("click", () => {
      if (sure) {
        clearTimeout(sure);
        sure = null;
        button.textContent = WORDS[action];
        act(action, button);
        return;
      }
      button.textContent = `${WORDS[action]}: sure?`;
      sure = setTimeout(() => {
        sure = null;
        button.textContent = WORDS[action];
      }, SURE_MS);
    });
    return button;
  });
  return h("div", {}, h("div", { class: "buttons" }, buttons), problem);
}
