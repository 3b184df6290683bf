// Where the page begins: ask the server whether we may, then show what the address says.

import { request, setToken } from "./api.js";
import { Chat } from "./chat.js";
import { Cluster } from "./cluster.js";
import { Costs } from "./costs.js";
import { h } from "./dom.js";
import { Inbox } from "./inbox.js";
import { Tasks } from "./tasks.js";

const login = document.getElementById("login");
const problem = document.getElementById("login-problem");
const hint = document.getElementById("login-hint");
let app = null;

class App {
  constructor(agents, cluster) {
    this.views = agents ? { chat: new Chat(agents), tasks: new Tasks(agents) } : {};
    if (cluster) Object.assign(this.views, { cluster: new Cluster(), inbox: new Inbox(), costs: new Costs() });
    this.links = Object.keys(this.views).map((name) => h(
      "a", { href: `#/${name}`, "data-view": name }, name[0].toUpperCase() + name.slice(1),
    ));
    this.main = h("main", { id: "main", tabIndex: -1 });
    this.element = h(
      "div", { id: "app" },
      h("a", { class: "skip", href: "#main", onclick: (event) => this.skip(event) }, "Skip to the content"),
      h(
        "header", { class: "top" },
        h("img", { src: "/page/icon.svg", alt: "", width: 22, height: 22 }), h("h1", {}, "Orbiter"),
        h("nav", { "aria-label": "Views" }, this.links),
      ),
      this.main,
      h("div", { id: "announcer", class: "unseen", role: "status", "aria-live": "polite" }),
    );
  }

  skip(event) {
    event.preventDefault();
    this.main.focus();
  }

  async route() {
    const [, name, id, ...rest] = location.hash.split("/");
    const chosen = Object.hasOwn(this.views, name) ? name : Object.keys(this.views)[0];
    const view = this.views[chosen];
    if (this.view !== view) {
      this.view?.leave();
      this.view = view;
      this.main.replaceChildren(view.element);
      document.title = `${chosen[0].toUpperCase()}${chosen.slice(1)} · Orbiter`;
      for (const link of this.links) {
        if (link.dataset.view === chosen) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
    }
    await view.enter(id || undefined, ...rest);
  }
}

async function start() {
  let agents;
  try {
    ({ agents } = await request("GET", "/v1/agents"));
  } catch (error) {
    // somebody of the cluster who may not talk to agents may look at the cluster all the same
    if (error.status !== 403 || error.code !== "forbidden") {
      locked(error);
      return;
    }
  }
  const cluster = await request("GET", "/v1/cluster/tasks?limit=1").then(() => true, (error) => error.code !== "no_cluster");
  login.hidden = true;
  app = new App(agents, cluster);
  document.body.append(app.element);
  await app.route();
}

function locked(error) {
  app?.view?.leave();
  app?.element.remove();
  app = null;
  login.hidden = false;
  if (error && error.status !== 401) problem.textContent = error.message;
  document.getElementById("token").focus();
}

addEventListener("hashchange", () => app?.route());
addEventListener("unauthorized", ({ detail }) => {
  setToken("");
  // how to get a token is the server's to say: it knows for whom it has to be
  hint.textContent = detail.code === "cluster_token" ? detail.message : "";
  if (app) locked();
});
document.getElementById("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  setToken(field.value);
  field.value = "";
  problem.textContent = "";
  await start();
  if (app || problem.textContent) return;
  problem.textContent = hint.textContent ? "This token does not open the page." : "This is not the server's token.";
});
start();
