// Talks to the server: JSON, and streams of events. Every call can be aborted.

export class Failure extends Error {
  constructor(message, cure = "", status = null) {
    super(message);
    this.cure = cure;
    this.status = status;
  }
}

const TOKEN = "weft-token";

// The printed address carries the token of this server once; afterwards the tab keeps it.
export function keepToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

async function request(path, { body, signal, keepalive = false } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (body !== undefined && hasToken()) headers["X-Weft-Token"] = sessionStorage.getItem(TOKEN);
  let answer;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body), signal, keepalive });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The studio does not answer.", "Is weft studio still running? Start it again, then reload this page.");
  }
  if (answer.ok) return answer;
  throw await readFailure(answer);
}

async function readFailure(answer) {
  let found = null;
  try {
    found = (await answer.json()).error;
  } catch {
    found = null;
  }
  if (found?.message) return new Failure(found.message, found.cure ?? "", answer.status);
  return new Failure(`The studio answered with ${answer.status} ${answer.statusText}.`.replace(" .", "."), "Reload the page; the terminal of weft studio may say more.");
}

export const get = async (path, options = {}) => (await request(path, options)).json();

export const post = async (path, body = {}, options = {}) => (await request(path, { ...options, body })).json();

// Yields {event, data} of server-sent events; a body makes it a POST.
export async function* events(path, options = {}) {
  const answer = await request(path, options);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      rest = (rest + value).replaceAll("\r\n", "\n");
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const found = parse(block);
        if (found) yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}

export const runPath = (id, rest) => `/api/runs/${id.split("/").map(encodeURIComponent).join("/")}/${rest}`;
