// The files that were kept of a task's workspace, and how to have them.

import { request, saved } from "./api.js";
import { fill, h, size } from "./dom.js";

export class Artifacts {
  constructor() {
    this.summary = h("summary", {});
    this.rows = h("ul", { class: "files", "aria-label": "Artifacts" });
    this.problem = h("p", { class: "problem", role: "alert" });
    this.why = h("p", { class: "soft" });
    this.command = h("p", {}, h("code", {}));
    this.element = h(
      "details", { class: "artifacts", hidden: true },
      this.summary, this.rows, this.problem, this.why, this.command,
    );
    this.clear();
  }

  clear() {
    this.element.hidden = true;
    this.element.open = false;
    this.known = null;
    this.problem.textContent = "";
  }

  // Read again when others were kept, and not at each look.
  async refresh(path, { artifacts: count, artifacts_of: attempt }) {
    const known = count ? `${path} ${attempt} ${count}` : null;
    if (!known && this.known) this.clear();
    if (!known || known === this.known) return;
    this.known = known;
    try {
      const found = await request("GET", `${path}/artifacts?attempt=${attempt}`);
      if (known === this.known) this.show(found, path);
    } catch {
      if (known === this.known) this.known = null; // the next time
    }
  }

  show({ attempt, files, count, size_bytes: bytes, store, problem, command }, path) {
    this.element.hidden = false;
    this.summary.textContent = `Artifacts of attempt ${attempt}: ${count} file${count === 1 ? "" : "s"}, ${size(bytes)}`;
    fill(this.rows, files.map((file) => this.row(file, `${path}/artifacts/${attempt}`)));
    const behind = count - files.length;
    this.why.textContent = [
      behind > 0 ? `${behind} more are not named here.` : "", problem ? `${problem}.` : "",
      store ? `Those in the store, ${store}, are fetched by:` : "All of them are fetched by:",
    ].filter(Boolean).join(" ");
    this.command.firstChild.textContent = command;
  }

  row({ name, size_bytes: bytes, place, key }, path) {
    const button = key ? h("button", { type: "button", class: "quiet", "aria-label": `Download ${name}` }, "Download") : null;
    button?.addEventListener("click", async () => {
      button.disabled = true;
      this.problem.textContent = "";
      try {
        await saved(`${path}/${encodeURIComponent(key)}`, name.split("/").at(-1));
      } catch (error) {
        this.problem.textContent = error.message;
      }
      button.disabled = false;
    });
    return h(
      "li", {}, h("span", { class: "name" }, name),
      h("span", { class: "fine" }, [bytes === null ? "" : size(bytes), place === "store" ? "in the store" : ""].filter(Boolean).join(", ")),
      button,
    );
  }
}
