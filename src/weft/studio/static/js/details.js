// The right column: what is under the pointer, and how the view is computed.

import { fill, find, make, show, table } from "./dom.js";
import { spaced } from "./tokens.js";

const HIDDEN = /^(_|vgsid|x$|y$|x2$|y2$|key$)/;
const NAMES = ["token", "word", "unit", "name", "text"];

let pointer = null;

export function clearDetails() {
  pointer = make("div", { id: "pointer" });
  fill(find("details"), pointer, make("div", { id: "sources" }));
  hint("Point at a mark or a token to see its numbers.");
}

export function hint(text) {
  fill(pointer, make("h3", {}, "Under the pointer"), make("p.faint", {}, text));
}

// Shows one mark of a chart: its own words first, then numbers, then lists such as the likeliest tokens.
export function showDatum(datum, { keys = new Set(), titles = {} } = {}) {
  const entries = Object.entries(datum).filter(([name, value]) => !HIDDEN.test(name) && value !== undefined && typeof value !== "function");
  const cleaned = entries.map(([name, value]) => [name, keys.has(name) && typeof value === "string" ? value.replace(/^\d{5}/, "") : value]);
  const main = cleaned.find(([name, value]) => NAMES.includes(name) && typeof value === "string");
  const plain = cleaned.filter(([name, value]) => !Array.isArray(value) && (value === null || typeof value !== "object") && name !== main?.[0]);
  const lists = cleaned.filter(([, value]) => Array.isArray(value) && value.length > 0);
  fill(
    pointer,
    make("h3", {}, "Under the pointer"),
    main ? make("p.tokenname", { dir: "auto" }, spaced(main[1])) : null,
    make("dl", {}, plain.map(([name, value]) => [make("dt", {}, titles[name] ?? name.replaceAll("_", " ")), make("dd", { dir: "auto" }, show(value))]).flat()),
    lists.map(([name, value]) => [make("h3", {}, name.replaceAll("_", " ")), list(value)]).flat(2),
  );
}

function list(values) {
  const rows = values.slice(0, 10);
  if (rows.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))) {
    const headings = Object.keys(rows[0]);
    return table(headings, rows.map((row) => headings.map((name) => row[name])), { tokens: true });
  }
  if (rows.every(Array.isArray)) return table(rows[0].map(() => ""), rows, { tokens: true });
  return [make("p", {}, rows.map((value) => show(value)).join(", "))];
}

export function showPointer(...children) {
  fill(pointer, make("h3", {}, "Under the pointer"), ...children);
}

// Equations that stand side by side on a wide page stand below each other here.
const narrow = (equation) => equation.replaceAll(/(?<=\S) {5,}/g, "\n");

// The equation and the Python call behind a view, to unfold.
export function showSources({ equation, code, settings, card }) {
  const unfold = (name, text, open) => (text ? make("details", { open }, make("summary", {}, name), make("pre", {}, text)) : null);
  fill(find("sources"), unfold("the equation", equation && narrow(equation), true), unfold("the code", code, true), unfold("the settings", settings, false), unfold("the model card", card, false));
}
