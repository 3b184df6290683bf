// What a task was told: what matters most as fields, and the whole of it as YAML.

import { request } from "./api.js";
import { fill, h } from "./dom.js";

export class Spec {
  constructor() {
    this.fields = h("dl", { class: "fields" });
    this.yaml = h("pre", { tabIndex: 0 });
    this.cut = h("p", { class: "fine" });
    this.element = h(
      "details", { class: "spec", hidden: true }, h("summary", {}, "Spec"), this.fields,
      h("details", {}, h("summary", {}, "As YAML"), this.yaml, this.cut),
    );
    this.clear();
  }

  clear() {
    this.element.hidden = true;
    for (const each of [this.element, ...this.element.querySelectorAll("details")]) each.open = false;
    this.known = null;
  }

  // Read again when the spec is another one, and not at each look.
  async refresh(path, generation) {
    const known = `${path} ${generation}`;
    if (known === this.known) return;
    this.known = known;
    try {
      const { fields, yaml, yaml_cut: cut } = await request("GET", `${path}/spec`);
      if (known !== this.known) return;
      fill(this.fields, fields.map(({ name, value }) => [h("dt", {}, name), h("dd", {}, value)]).flat());
      this.yaml.textContent = yaml;
      this.cut.textContent = cut ? "This is not all of it: kubectl get agenttask -o yaml has the rest." : "";
      this.element.hidden = false;
    } catch {
      if (known === this.known) this.known = null; // the next time
    }
  }
}
