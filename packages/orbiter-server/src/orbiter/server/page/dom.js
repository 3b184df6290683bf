// Elements without markup text: nothing an agent says can become part of the page.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  fill(element, ...children);
  return element;
}

// Put children in the place of what an element has; null and undefined stand for none.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
}

export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

export function seconds(value) {
  if (value < 0.001) return "0 ms";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 60 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB"];
  let amount = bytes;
  for (const unit of units) {
    if (amount < 1024) return `${unit === "B" ? amount : amount.toFixed(1)} ${unit}`;
    amount /= 1024;
  }
  return `${amount.toFixed(1)} GiB`;
}

// JSON that somebody reads; what is none stays as it is.
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});

export function when(text) {
  if (!text) return "";
  const time = new Date(text);
  return (time.toDateString() === new Date().toDateString() ? clock : date).format(time);
}

export function badge(state) {
  const name = String(state).replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase();
  return h("span", { class: `badge ${name}` }, name.replace("_", " "));
}
