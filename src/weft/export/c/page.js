"use strict";
const facts = JSON.parse(document.getElementById("facts").textContent);
const find = (id) => document.getElementById(id);
const STUBS = { fd_close: () => 8, fd_seek: () => 8, fd_write: () => 8 };
const ROOM = 1 << 18;
let wasm, places, seed = 0;

function bytesOf(id) {
  const found = find(id), text = atob(found.textContent);
  found.remove();
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function add(parent, tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  parent.append(made);
  return made;
}

function reach(end) {
  const missing = end - wasm.memory.buffer.byteLength;
  if (missing > 0) wasm.memory.grow(Math.ceil(missing / 65536));
}

function message(code) {
  const bytes = new Uint8Array(wasm.memory.buffer), start = wasm.page_error(code);
  return new TextDecoder().decode(bytes.subarray(start, bytes.indexOf(0, start)));
}

async function open() {
  const program = await WebAssembly.instantiate(bytesOf("program"), { wasi_snapshot_preview1: STUBS });
  wasm = program.instance.exports;
  if (wasm._initialize) wasm._initialize();
  const weights = bytesOf("weights"), up = (n) => Math.ceil(n / 64) * 64;
  const at = up(wasm.__heap_base.value);
  reach(at + weights.length);
  new Uint8Array(wasm.memory.buffer).set(weights, at);
  const memory = wasm.page_memory(at, weights.length);
  if (memory < 0) throw new Error(message(memory));
  const model = up(at + weights.length), text = up(model + memory);
  reach(text + 2 * ROOM);
  const error = wasm.page_open(at, weights.length, model, memory);
  if (error) throw new Error(message(error));
  places = { text, answer: text + ROOM };
}

/* The line that the model reads: a pair of texts has a tab between them. */
function line() {
  const one = (id, blanks) => find(id).value.replace(blanks, " ");
  if (!facts.pair) return one("text", /\n/g);
  return `${one("text", /[\n\t]/g)}\t${one("second", /[\n\t]/g)}`;
}

/* The number of the chosen language; -1 where the model has none. */
function language() {
  return facts.languages.length ? find("language").selectedIndex : -1;
}

/* The parts of an answer: what the C prints with --precise. */
function answer(text) {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > 16384) throw new Error("the text is too long");
  new Uint8Array(wasm.memory.buffer).set(bytes, places.text);
  const size = wasm.page_answer(places.text, bytes.length, facts.n_best, seed, language(), places.answer, ROOM);
  if (size < 0) throw new Error(message(size));
  return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, places.answer, size));
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

const SHOW = {
  classify(to, parts) {
    for (let i = 0; i + 1 < Math.min(parts.length, 40); i += 2) {
      const row = add(to, "div", undefined, "row");
      add(row, "span", parts[i]);
      const bar = add(add(row, "div"), "div", undefined, "bar");
      bar.style.width = `${100 * parts[i + 1]}%`;
      add(row, "span", percent(parts[i + 1]), "score");
    }
  },
  tag(to, parts) {
    const words = add(to, "div", undefined, "words");
    for (const one of parts[0].split(" ")) {
      const [, word, tag, share] = /^(.*)\/([^/]*)\/([^/]*)$/.exec(one) || [one, one, "", ""];
      const shown = add(words, "span", undefined, "word");
      add(shown, "span", word);
      add(shown, "small", tag).title = percent(share);
    }
  },
  write(to, parts) {
    for (let i = 0; i + 1 < parts.length; i += 2) {
      const shown = add(to, "p", parts[i], "text");
      shown.title = `score ${Number(parts[i + 1]).toFixed(3)}`;
      if (parts.length > 2) add(shown, "span", `  ${Number(parts[i + 1]).toFixed(3)}`, "score");
    }
  },
  near(to, parts) {
    for (let i = 0; i + 1 < parts.length; i += 2) {
      const row = add(to, "div", undefined, "row");
      add(row, "span", parts[i]);
      add(row, "span", Number(parts[i + 1]).toFixed(3), "score");
    }
  },
  series(to, parts) {
    const lines = [["forecast"]];
    for (const part of parts) {
      if (part.startsWith("q")) lines.push([`quantile ${part.slice(1)}`]);
      else lines[lines.length - 1].push(part);
    }
    const table = add(to, "table");
    for (let step = 0; step < lines[0].length; step++) {
      const row = add(table, "tr");
      add(row, "th", step ? `step ${step}` : "");
      for (const one of lines) add(row, step ? "td" : "th", step ? String(Number(Number(one[step]).toPrecision(6))) : one[0]);
    }
  },
  plain(to, parts) {
    for (const part of parts) add(to, "p", part, "text");
  },
};

function run() {
  const to = find("answer"), text = line(), started = performance.now();
  to.replaceChildren();
  if (!text.trim()) return;
  try {
    SHOW[facts.show](to, answer(text).split("\t"));
    seed += facts.sample ? 1 : 0;
    find("status").textContent = `${Math.round(performance.now() - started)} ms`;
  } catch (error) {
    find("status").textContent = "";
    add(to, "p", error.message, "error");
  }
}

find("form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
for (const id of facts.pair ? ["text", "second"] : ["text"]) {
  find(id).addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); run(); }
  });
}
for (const name of facts.languages) add(find("language"), "option", name);
find("languages").hidden = !facts.languages.length;
find("pair").hidden = !facts.pair;
open().then(() => {
  find("go").disabled = false;
  find("status").textContent = "ready";
  find("text").focus();
}).catch((error) => {
  find("status").textContent = "";
  add(find("answer"), "p", `The model cannot be opened: ${error.message}`, "error");
});
