// The search below the view States: drag over tokens, and find units that are on there, and where else they are on.

import { state } from "./address.js";
import { failure, fill, isAbort, make, show } from "./dom.js";
import { waiting } from "./figure_view.js";
import { Picture } from "./picture.js";
import { post, runPath } from "./server.js";
import { spaced } from "./tokens.js";

const MAX_TOKENS = 400; // chips of a longer input would be endless
let corpus = null; // stays while the page is open

export function stateSearch({ run, details, found, place }) {
  const data = found.data;
  if (!Array.isArray(data?.tokens) || !data.tokens.length || details.inputs === "picture") return;
  const result = make("div", { "aria-live": "polite" });
  const where = make("textarea", { rows: 3, dir: "auto", "aria-label": "Texts to search in, one in each line", spellcheck: false });
  where.value = corpus ?? [state.text, ...(details.examples ?? [])].join("\n");
  where.addEventListener("input", () => (corpus = where.value));
  const about = { part: data.part, layer: data.layer, direction: data.direction, state: data.state };
  const search = searcher(run, result, about, () => where.value, (texts) => searchedIn(texts, details));
  const marks = ["(", ")"].map((mark, side) => make("input", { type: "text", placeholder: mark, "aria-label": side ? "closing mark" : "opening mark" }));
  const inside = () => search({ inside: marks.map((box) => box.value || box.placeholder) });
  fill(
    place,
    make("h2", {}, "Find units"),
    make("p.summary", {}, "Drag over tokens: which units are on there and off beside them, and where else are they on?"),
    chips(data.tokens, (first, last) => search({ like: state.text, span: [first, last] })),
    make("div.controls", {}, make("span", {}, "or units that are on between the marks"), ...marks, make("button", { type: "button", onclick: inside }, "find"), make("button", { type: "button", onclick: () => search({}) }, "what each unit fires on")),
    make("details", {}, make("summary", {}, "the texts to search in"), where),
    result,
  );
}

function chips(tokens, onspan) {
  let first = null;
  const shown = tokens.slice(0, MAX_TOKENS);
  const buttons = shown.map((token) => make("button.chip", { type: "button", dir: "auto" }, spaced(token)));
  const mark = (from, to) => buttons.forEach((button, place) => button.classList.toggle("chosen", from !== null && place >= Math.min(from, to) && place <= Math.max(from, to)));
  buttons.forEach((button, place) => {
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.releasePointerCapture?.(event.pointerId);
      first = place;
      mark(first, place);
    });
    button.addEventListener("pointerenter", () => first !== null && mark(first, place));
    button.addEventListener("pointerup", () => {
      if (first === null) return;
      mark(first, place);
      onspan(Math.min(first, place), Math.max(first, place));
      first = null;
    });
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      mark(place, place);
      onspan(place, place);
    });
  });
  return make("div.tokens", { onpointerleave: () => first !== null && ((first = null), mark(null)) }, buttons);
}

// What was searched; where it is the input alone, how there would be more.
function searchedIn(texts, details) {
  const lines = texts.split("\n").filter((line) => line.trim());
  if (texts.trim() !== state.text.trim()) return `Searched in “the texts to search in”, ${lines.length} ${lines.length === 1 ? "line" : "lines"}.`;
  const more = "Paste more below “the texts to search in”";
  return details.examples?.length ? `Searched in your input alone. ${more}.` : `Searched in your input alone, because the data of the run is not below the folders that the studio was started with. ${more}, or name the folder of the data too: weft studio RUNS DATA.`;
}

function searcher(run, result, about, texts, searched) {
  let aborter = new AbortController();
  const picture = new Picture();
  return async (question) => {
    aborter.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    fill(result, waiting("Searching …", () => aborter.abort()));
    try {
      const sent = texts();
      const found = await post(runPath(run.id, "search"), { corpus: sent, ...about, ...question }, { signal });
      const data = found.data ?? found;
      fill(result, make("p.summary", {}, found.summary ?? ""), make("p.faint.small", { class: "searched" }, searched(sent)), units(data.units ?? []), places(data.places ?? []), picture.place);
      if (found.specification) await picture.draw(found.specification, { label: found.title });
    } catch (error) {
      fill(result, isAbort(error) ? null : failure(error));
    }
  };
}

const HEADINGS = { unit: "unit", f1: "F1", precision: "precision", recall: "recall", margin: "margin", explained: "explained by the token" };

function units(found) {
  if (!found.length) return make("p.empty", {}, "No unit follows this.");
  const known = Object.keys(HEADINGS).filter((name) => found.some((unit) => unit[name] !== null && unit[name] !== undefined));
  const tokens = found.some((unit) => unit.tokens?.length);
  const row = (unit) =>
    make("tr", {}, known.map((name) => make("td.number", {}, show(unit[name], 3))), make("td.number", {}, `${unit.sign < 0 ? "≤" : "≥"} ${show(unit.threshold, 3)}`), tokens ? make("td.token", {}, (unit.tokens ?? []).map(({ token, mean }) => `${token} ${mean > 0 ? "+" : ""}${mean.toFixed(1)}`).join("  ")) : null);
  const heads = [...known.map((name) => HEADINGS[name]), "on where", ...(tokens ? ["tokens"] : [])];
  return make("div.scroll", {}, make("table", { class: "found-units" }, make("thead", {}, make("tr", {}, heads.map((name) => make("th.number", { scope: "col" }, name)))), make("tbody", {}, found.map(row))));
}

function places(found) {
  if (!found.length) return null;
  const row = (one) => make("tr", {}, make("td.number", {}, show(one.value, 3)), make("td", { dir: "auto" }, make("span.faint", {}, one.before), make("mark", {}, one.inside), make("span.faint", {}, one.after)));
  return make("div.scroll", {}, make("h3", {}, "Where the best are on"), make("table", {}, make("tbody", {}, found.map(row))));
}
