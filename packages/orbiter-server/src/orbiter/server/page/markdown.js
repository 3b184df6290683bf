// The Markdown that models write, as elements. What is unknown stays text.

import { h } from "./dom.js";

// Marks that open and are never closed take time in proportion to the text: a run of backticks is tried
// once, and what may be a link ends where another may begin.
const INLINE = /(?<!`)(`+)(?!`)([^`]|[^`].*?[^`])\1(?!`)|\*\*(.+?)\*\*|\*([^\s*].*?)\*|\[([^\][]{1,500})\]\((https?:\/\/[^\s)[]{1,2000})\)/g;

// Bring `container` up to date with `text`. Blocks that did not change keep their elements, so that
// a growing answer costs what has grown, and a selection in it stays.
export function show(container, text) {
  const blocks = split(text);
  for (let i = 0; i < blocks.length; i += 1) {
    const old = container.children[i];
    if (old?.source === blocks[i]) continue;
    const fresh = block(blocks[i]);
    fresh.source = blocks[i];
    if (old) old.replaceWith(fresh);
    else container.append(fresh);
  }
  while (container.children.length > blocks.length) container.lastElementChild.remove();
}

function split(text) {
  const blocks = [];
  let lines = [];
  let fenced = false;
  const close = () => {
    if (lines.length) blocks.push(lines.join("\n"));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const fence = /^\s*```/.test(line);
    if (fence && !fenced) close();
    if (!fenced && !fence && !line.trim()) {
      close();
      continue;
    }
    if (!fenced && !fence && /^#{1,6} /.test(line)) close();
    lines.push(line);
    if (fence && fenced) close();
    else if (!fenced && !fence && /^#{1,6} /.test(line)) close();
    if (fence) fenced = !fenced;
  }
  close();
  return blocks;
}

function block(source) {
  const lines = source.split("\n");
  if (/^\s*```/.test(lines[0])) {
    const last = lines.length > 1 && /^\s*```\s*$/.test(lines.at(-1)) ? -1 : undefined;
    return h("pre", { tabIndex: 0 }, h("code", {}, lines.slice(1, last).join("\n")));
  }
  const heading = /^(#{1,6}) (.*)$/.exec(source);
  if (heading) return h("p", { class: "heading", role: "heading", "aria-level": "4" }, inline(heading[2]));
  const item = /^\s*(?:[-*+]|(\d+)[.)]) +/;
  if (lines.every((line) => item.test(line) || /^\s{2,}/.test(line)) && item.test(lines[0])) {
    const items = [];
    for (const line of lines) {
      if (item.test(line)) items.push(line.replace(item, ""));
      else items[items.length - 1] += `\n${line.trim()}`;
    }
    const numbered = /^\s*\d/.test(lines[0]);
    return h(numbered ? "ol" : "ul", {}, items.map((text) => h("li", {}, inline(text))));
  }
  return h("p", {}, inline(source));
}

function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(at, match.index));
    const [whole, , code, strong, emphasis, label, address] = match;
    if (code !== undefined) parts.push(h("code", {}, code));
    else if (strong !== undefined) parts.push(h("strong", {}, strong));
    else if (emphasis !== undefined) parts.push(h("em", {}, emphasis));
    else parts.push(h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, label));
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}
