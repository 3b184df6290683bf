// Requests with the token, and streams of events that survive lost connections.

const KEY = "orbiter-token";
let token = sessionStorage.getItem(KEY) ?? "";

export class ApiError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function setToken(value) {
  token = value;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function checked(response) {
  if (response.ok) return response;
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch { /* no JSON: the status has to do */ }
  if (response.status === 401) dispatchEvent(new CustomEvent("unauthorized", { detail: error }));
  throw new ApiError(response.status, error.message ?? `status ${response.status}`, error.code);
}

export async function request(method, path, body) {
  const options = { method, headers: headers(), cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await checked(await fetch(path, options));
  return response.status === 204 ? null : response.json();
}

// The bytes of an image, which an <img> could not ask for: it sends no token.
export async function image(path) {
  const response = await checked(await fetch(path, { headers: headers() }));
  return URL.createObjectURL(await response.blob());
}

// A file, saved as the browser saves one, and never shown: it may be anything.
export async function saved(path, name) {
  const response = await checked(await fetch(path, { headers: headers(), cache: "no-store" }));
  const url = URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), LONGEST_PAUSE);
}

const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 8000;
// the server sends a comment every 15 s: a line silent for longer is dead
const SILENCE = 40000;

// Follow events up to the one that `isLast`. Each event is told once and in order, however often
// the connection is lost: we go on behind the last one we have seen.
export async function follow(path, { after = 0, onEvent, onState = () => {}, isLast, signal }) {
  let seen = after;
  let pause = FIRST_PAUSE;
  while (!signal?.aborted) {
    try {
      const connection = new AbortController();
      const stop = () => connection.abort();
      signal?.addEventListener("abort", stop, { once: true });
      let watchdog = setTimeout(stop, SILENCE);
      try {
        const response = await checked(await fetch(path, {
          headers: headers({ "Last-Event-ID": String(seen) }),
          signal: connection.signal,
          cache: "no-store",
        }));
        onState("connected");
        for await (const message of messages(response.body)) {
          clearTimeout(watchdog);
          watchdog = setTimeout(stop, SILENCE);
          pause = FIRST_PAUSE;
          if (message === null || message.seq <= seen) continue;
          seen = message.seq;
          onEvent(message);
          if (isLast(message)) return;
        }
      } finally {
        clearTimeout(watchdog);
        signal?.removeEventListener("abort", stop);
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof ApiError && error.status < 500) throw error;
    }
    onState("reconnecting");
    await rest(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

// Waits, but not longer than until the network is back.
function rest(milliseconds, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    addEventListener("online", done, { once: true });
    signal?.addEventListener("abort", done, { once: true });
  });
}

// Yields the JSON of each event, and null for each comment.
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data: "));
        yield data.length ? JSON.parse(data.map((line) => line.slice(6)).join("\n")) : null;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
