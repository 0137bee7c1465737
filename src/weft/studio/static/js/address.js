// The address of the page holds what it shows, so that a reload or a link shows the same:
//   #run=demo&view=attention&text=The+red+car&o.layer=2&s.step=4
// o. are options of the view, s. the sliders inside its chart, with= a run to compare.

import { keepToken } from "./server.js";

const MAX_TEXT = 30000; // longer inputs stay in the tab: some programs cut longer addresses
const LONG = "weft-long-text";
const listeners = [];

export let state = read();

function read() {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has("token")) {
    keepToken(parts.get("token"));
    parts.delete("token");
    history.replaceState(null, "", `${location.pathname}${parts.size ? `#${parts}` : ""}`);
  }
  const group = (prefix) => Object.fromEntries([...parts].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value]));
  return {
    run: parts.get("run") ?? "",
    view: parts.get("view") ?? "playground",
    text: parts.has("long") ? (sessionStorage.getItem(LONG) ?? "") : (parts.get("text") ?? ""),
    target: parts.get("target") ?? "",
    partners: parts.getAll("with"),
    ladder: parts.get("ladder") ?? "",
    options: group("o."),
    sliders: group("s."),
  };
}

export function write(next) {
  const parts = new URLSearchParams();
  if (next.run) parts.set("run", next.run);
  if (next.view !== "playground") parts.set("view", next.view);
  if (next.text.length > MAX_TEXT) {
    sessionStorage.setItem(LONG, next.text);
    parts.set("long", "1");
  } else if (next.text) parts.set("text", next.text);
  if (next.target) parts.set("target", next.target);
  for (const id of next.partners) parts.append("with", id);
  if (next.ladder) parts.set("ladder", next.ladder);
  for (const [name, value] of Object.entries(next.options)) parts.set(`o.${name}`, value);
  for (const [name, value] of Object.entries(next.sliders)) parts.set(`s.${name}`, value);
  return `${location.pathname}${location.search}#${parts}`;
}

// Options of a view are remembered while the page is open: walking through views and back keeps them.
const remembered = new Map();

export function changed(changes) {
  const next = { ...state, ...changes };
  if (next.view !== state.view && changes.options === undefined) next.options = remembered.get(next.view) ?? {};
  if (next.view !== state.view || next.run !== state.run) next.sliders = changes.sliders ?? {};
  return next;
}

export function go(changes, { replace = false, silent = false } = {}) {
  const next = changed(changes);
  remembered.set(next.view, next.options);
  const address = write(next);
  state = next;
  if (replace) history.replaceState(null, "", address);
  else if (address !== `${location.pathname}${location.search}${location.hash}`) history.pushState(null, "", address);
  if (!silent) listeners.forEach((listener) => listener(state));
}

export const link = (changes) => write(changed(changes));

export function onAddress(listener) {
  listeners.push(listener);
}

window.addEventListener("popstate", () => {
  state = read();
  listeners.forEach((listener) => listener(state));
});
window.addEventListener("hashchange", () => {
  if (location.hash.includes("token=")) state = read();
});
