// Runs side by side: scores with intervals, curves of all, and the settings in which they differ.

import { go, link, state } from "./address.js";
import { showSources } from "./details.js";
import { failure, fill, isAbort, make, show, table } from "./dom.js";
import { waiting } from "./figure_view.js";
import { Picture } from "./picture.js";
import { allRuns, runOf } from "./runs.js";
import { get, post } from "./server.js";

export function mountCompare(place) {
  const curves = new Picture();
  const intervals = new Picture();
  const status = make("div", { "aria-live": "polite" });
  const content = make("div");
  let aborter = new AbortController();
  const summary = make("p.summary");
  const bar = make("div");
  fill(place, make("h2.question", {}, "Which run is better, and in what do they differ?"), summary, bar, status, content);
  let files = [];
  const drawBar = () => fill(bar, files.length && state.partners.length > 1 ? measured(files) : null);
  get("/api/files").then((found) => { files = found; drawBar(); }).catch(() => {}); // without files the reports remain
  const clear = () => {
    fill(summary);
    fill(content);
    showSources({});
  };
  const update = async () => {
    aborter.abort();
    aborter = new AbortController();
    const { signal } = aborter;
    const runs = state.partners.filter((id) => runOf(id));
    const data = state.options.data ?? null;
    drawBar();
    if (runs.length < 2) {
      clear();
      fill(status, chooser());
      return;
    }
    const own = aborter;
    fill(status, waiting("Comparing …", () => own.abort()));
    try {
      const found = await post("/api/compare", { runs, data }, { signal });
      showSources({ code: found.code });
      fill(summary, reading(found));
      fill(content, scores(found), intervals.place, make("h2", {}, "Curves"), curves.place, curves.tools("compare", () => found), notes(found), differences(found));
      const bars = intervalChart(found, content.clientWidth);
      if (bars) await intervals.draw(bars, { label: `Scores of ${runs.length} runs` });
      intervals.place.hidden = !bars;
      if (found.specification) await curves.draw(found.specification, { label: "Learning curves of all runs" });
      fill(status);
    } catch (error) {
      if (own !== aborter) return; // another comparison has begun
      clear(); // an error does not stand above the results of other runs
      fill(status, isAbort(error) ? make("p.empty", {}, "Stopped.") : failure(error));
    }
  };
  update();
  return { update, dispose: () => (aborter.abort(), (aborter = null), curves.dispose(), intervals.dispose()) };
}

function chooser() {
  const runs = allRuns().filter((run) => run.state !== "broken");
  if (runs.length < 2) return make("p.empty", {}, "A comparison needs two runs; this folder has fewer.");
  const box = (run) => {
    const input = make("input", { type: "checkbox", checked: state.partners.includes(run.id) });
    input.addEventListener("change", () => go({ partners: input.checked ? [...state.partners, run.id] : state.partners.filter((id) => id !== run.id) }, { replace: true }));
    return make("label", {}, input, run.name);
  };
  return make("div.empty", {}, make("p", {}, "Choose two runs or more, here or in the list of runs."), make("div.controls", {}, runs.slice(0, 40).map(box)));
}

// The file that all runs are measured on now, which gives intervals of their differences.
function measured(files) {
  const current = state.options.data ?? "";
  const list = make("select", {}, make("option", { value: "" }, "their own reports"), files.map((file) => make("option", { value: file, selected: file === current }, file)));
  list.addEventListener("change", () => {
    const { data, ...options } = state.options;
    go({ options: list.value ? { ...options, data: list.value } : options }, { replace: true });
  });
  return make("div.controls", {}, make("label", {}, "measured on", list));
}

const nameOf = (id) => runOf(id)?.name ?? id;

function scores({ metric_name: metric, rows }) {
  const ranged = hasIntervals({ rows });
  const paired = rows.some((row) => row.difference);
  const cell = (value) => make("td.number", {}, show(value));
  const line = (row) =>
    make("tr", {}, make("td", {}, make("a", { href: link({ run: row.id, view: "playground" }) }, nameOf(row.id))), cell(row.shown.value), ranged ? make("td.number", {}, row.shown.range ?? "–") : null, paired ? make("td.number", {}, difference(row)) : null, cell(row.parameters ?? runOf(row.id)?.parameters), cell(row.seconds ?? runOf(row.id)?.seconds));
  const headings = ["run", metric ?? "score", ...(ranged ? ["95 % interval"] : []), ...(paired ? [`difference to ${nameOf(rows[0].id)}`] : []), "parameters", "seconds"];
  return make("div.scroll", {}, make("table", {}, make("thead", {}, make("tr", {}, headings.map((name, column) => make("th", { class: column ? "number" : null, scope: "col" }, name)))), make("tbody", {}, rows.map(line))));
}

const difference = ({ shown, sure }) => (shown.difference ? `${shown.difference}${sure ? "" : ", may be chance"}` : "–");

const hasIntervals = ({ rows }) => rows.some((row) => typeof row.low === "number");

const reading = (found) =>
  found.rows.some((row) => row.difference)
    ? "All runs were measured on this file now. In brackets the range of the difference on other data of the same kind; where it has zero in it, the difference may be chance."
    : hasIntervals(found)
    ? "Each bar is the range in which the score would lie on other data of the same kind; where two bars overlap widely, the difference may be chance."
    : "Each point is the score of a run on its own report; the curves below show when each run reached it.";

// Notes on options of the command line are for its users.
const notes = ({ notes: found }) => (found ?? []).filter((note) => !note.includes("--")).map((note) => make("p.faint.small", {}, note));

function intervalChart({ metric_name: metric, percent, rows }, available) {
  const values = rows.filter((row) => typeof row.value === "number").map((row) => ({ run: nameOf(row.id), value: row.value, low: row.low ?? row.value, high: row.high ?? row.value }));
  if (!values.length) return null;
  const y = { field: "run", type: "nominal", sort: null, axis: { title: null, labelLimit: 200, ticks: false, domain: false } };
  const x = { field: "low", type: "quantitative", scale: { zero: false, nice: true }, axis: { title: metric ?? "score", labelSeparation: 6, labelOverlap: "greedy", ...(percent ? { format: ".4~%" } : {}) } };
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: Math.max(160, Math.min(420, available - 180)),
    height: { step: 26 },
    data: { values },
    layer: [
      { mark: { type: "rule", strokeWidth: 3 }, encoding: { y, x, x2: { field: "high" }, color: { field: "run", type: "nominal", sort: null, legend: null } } },
      { mark: { type: "point", filled: true, size: 70, opacity: 1 }, encoding: { y, x: { field: "value", type: "quantitative" }, color: { field: "run", type: "nominal", sort: null, legend: null } } },
    ],
  };
}

function differences({ differences: found }) {
  if (!found?.length) return make("p.empty", {}, "The settings of these runs are the same.");
  const runs = state.partners.filter((id) => runOf(id));
  const value = (values, id, place) => {
    const one = Array.isArray(values) ? values[place] : values[id];
    return one !== null && typeof one === "object" ? JSON.stringify(one) : one === null || one === undefined ? "–" : String(one);
  };
  const rows = found.map(({ setting, values }) => [setting, ...runs.map((id, place) => value(values, id, place))]);
  return [make("h2", {}, "Settings that differ"), ...table(["setting", ...runs.map(nameOf)], rows).filter(Boolean)].reduce((box, child) => (box.append(child), box), make("div"));
}
