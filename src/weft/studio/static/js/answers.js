// Draws an answer by what its record holds: labels, tags, texts, gaps, a number, neighbours or a forecast.

import { go } from "./address.js";
import { showPointer } from "./details.js";
import { fill, make, percent, show, table } from "./dom.js";
import { Picture } from "./picture.js";
import { chip, readable, spaced } from "./tokens.js";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#6f7782"];
const MAX_BARS = 12;

export async function drawAnswer(place, answer, { run, links }) {
  const records = answer.predictions.filter(Boolean);
  if (answer.specification) {
    const picture = new Picture();
    fill(place, picture.place, records.slice(0, 20).map(forecastTable));
    return picture.draw(answer.specification, { label: "The history and the forecast" });
  }
  fill(place, records.map((record) => draw(record, links, answer.streamed)), records.length ? null : make("p.empty", {}, "The model has no answer for this input."));
}

function draw(record, links, streamed) {
  if (record.probabilities && (record.label !== undefined || record.labels)) return labels(record, links);
  if (record.tags) return tags(record, links);
  if (record.gaps) return gaps(record, links);
  if (record.number !== undefined) return [make("p.text", {}, show(record.number, 6)), links()];
  if (record.neighbours) return neighbours(record);
  if (record.forecast) return forecastTable(record);
  return generation(record, links, streamed);
}

function bars(entries, chosen, label = percent) {
  const shown = entries.slice(0, MAX_BARS);
  const left = entries.length - shown.length;
  return [
    make("div.bars", {}, shown.flatMap(([name, share]) => {
      const strong = chosen.includes(name) ? "chosen" : null;
      return [
        make("span.name", { class: strong, dir: "auto" }, name),
        make("span.track", { "aria-hidden": "true" }, make("div.bar", { style: { width: `${100 * share}%` } })),
        make("span.number", { class: strong }, label(share)),
      ];
    })),
    left > 0 ? make("p.faint.small", {}, `${left} more labels are in the data.`) : null,
  ];
}

function labels(record, links) {
  const entries = Object.entries(record.probabilities).sort((one, other) => other[1] - one[1]);
  const chosen = record.labels ?? [record.label];
  return [make("p.text", { dir: "auto" }, chosen.join(", ") || "no label"), ...bars(entries, chosen), links()];
}

function tags(record, links) {
  const words = record.words ?? record.tokens ?? [];
  const kinds = [...new Set(record.tags.map(kindOf))].sort();
  const shares = record.probabilities ?? [];
  const share = (place) => (typeof shares[place] === "number" ? shares[place] : (shares[place]?.[record.tags[place]] ?? null));
  const one = (word, place) => {
    const tag = record.tags[place];
    const outside = kindOf(tag) === "O";
    return chip(word, {
      below: outside ? " " : tag,
      colour: outside ? "transparent" : COLOURS[kinds.indexOf(kindOf(tag)) % COLOURS.length],
      onpoint: () => showPointer(make("p.tokenname", { dir: "auto" }, word), make("dl", {}, make("dt", {}, "tag"), make("dd", {}, tag), share(place) === null ? null : [make("dt", {}, "probability"), make("dd", {}, percent(share(place)))])),
    });
  };
  return [make("div.tagged", { dir: "auto" }, words.map(one)), links()];
}

// B-PER and I-PER have one colour.
const kindOf = (tag) => tag.replace(/^[BIESLU]-/, "");

function gaps(record, links) {
  const lists = record.gaps.map((gap, place) => [
    make("h3", {}, record.gaps.length > 1 ? `gap ${place + 1}` : "for the gap"),
    ...bars(gap.map((filler) => [filler.token, filler.probability]), [gap[0]?.token]),
  ]);
  return [make("p.text", { dir: "auto" }, record.filled), ...lists.flat(), links()];
}

function neighbours(record) {
  const unknown = record.unknown.length ? make("p.empty", {}, `Not in the vocabulary: ${record.unknown.join(", ")}.`) : null;
  return [unknown, ...bars(record.neighbours.map((found) => [found.word, Math.max(0, found.similarity)]), [], (cosine) => cosine.toFixed(3)), make("p.faint.small", {}, "The number is the cosine of the two vectors: 1 is the same direction.")];
}

function forecastTable(record) {
  const levels = Object.keys(record.quantiles ?? {});
  const rows = record.forecast.map((value, step) => [record.time[step], value, ...levels.map((level) => record.quantiles[level][step])]);
  const heading = make("summary", {}, `${record.series || "the forecast"}: the numbers`);
  return make("details", {}, heading, ...table(["time", "forecast", ...levels.map((level) => `q${level}`)], rows).filter(Boolean));
}

function generation(record, links, streamed) {
  const others = record.others ?? [];
  const source = streamed ? make("span.faint", {}, record.source) : null;
  return [
    record.text || streamed ? make("p.text", { dir: "auto" }, source, record.text) : make("p.empty", {}, "The settings allow no text."),
    record.tokens ? pieces(record) : null,
    streamed && !record.text ? make("p.faint.small", {}, "The model ends the text here: it adds nothing. Leave out the last mark, or draw again with another seed.") : null,
    record.finished === false ? make("p.faint.small", {}, "The text reached the length limit before its end.") : null,
    record.missing?.length ? make("p.faint.small", {}, `Required words that did not fit: ${record.missing.join(", ")}.`) : null,
    links(),
    others.length ? make("ol.best", {}, [record, ...others].map(row)) : null,
    others.length ? make("p.faint.small", {}, "The number is the score of each answer: its log-probability, divided for its length. Closer to 0 is better.") : null,
  ];
}

function row(candidate, place) {
  const show_it = () => go({ view: "ranks", target: candidate.text });
  return make(
    "li",
    {},
    make("span.faint", {}, String(place + 1)),
    make("span.words", { dir: "auto" }, candidate.text),
    make("span.number.small", { title: "length-normalised log-probability" }, typeof candidate.score === "number" ? candidate.score.toFixed(3) : "–"),
    place === 0 ? make("span") : make("button.plain", { type: "button", title: "Which of its words surprise the model?", onclick: show_it }, "why not?"),
  );
}

function pieces(record) {
  const one = (token, place) => {
    const share = Math.exp(record.log_probabilities[place]);
    const about = () => showPointer(make("p.tokenname", { dir: "auto" }, spaced(token)), make("dl", {}, make("dt", {}, "probability"), make("dd", {}, percent(share)), make("dt", {}, "log-probability"), make("dd", {}, show(record.log_probabilities[place]))));
    return chip(token, { share, onpoint: about });
  };
  return make("div.tokens", { title: "The tokens that the model wrote; the line is the probability of each." }, readable(record.tokens).map(one));
}
