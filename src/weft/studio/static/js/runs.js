// The left column: runs with their state and score, the choice of runs to compare, and what needs no run.

import { go, link, state } from "./address.js";
import { ACROSS, labelOf, STATES } from "./catalog.js";
import { fill, find, make } from "./dom.js";
import { get } from "./server.js";

const REFRESH = 5000; // milliseconds between two looks at the folder
let runs = [];
let ladders = [];
let filter = "";
let problem = null;

export const allRuns = () => runs;
export const allLadders = () => ladders;
export const runOf = (id) => runs.find((run) => run.id === id);
export const runNamed = (name) => runs.find((run) => run.name === name);

export async function startRuns(onchange) {
  await load();
  setInterval(async () => {
    if (document.hidden) return;
    const before = JSON.stringify([runs, ladders, problem?.message]);
    await load();
    if (JSON.stringify([runs, ladders, problem?.message]) !== before) {
      drawRuns();
      onchange();
    }
  }, REFRESH);
}

async function load() {
  try {
    [runs, ladders] = await Promise.all([get("/api/runs"), get("/api/ladders")]);
    problem = null;
  } catch (error) {
    problem = error;
  }
}

export function drawRuns() {
  const place = find("runs");
  const focused = document.activeElement?.id === "filter";
  const box = make("input.filter", { type: "search", id: "filter", placeholder: `filter ${runs.length} runs`, "aria-label": "Filter runs" });
  box.value = filter;
  box.addEventListener("input", () => {
    filter = box.value;
    drawList(list);
  });
  const list = make("ul.runs");
  drawList(list);
  fill(place, runs.length > 6 ? box : null, problem ? make("p.failure.small", {}, problem.message) : null, list, across());
  if (focused) box.focus();
}

function drawList(list) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = runs.filter((run) => words.every((word) => `${run.id} ${run.task} ${run.kind} ${run.state}`.toLowerCase().includes(word)));
  const none = runs.length ? "No run matches." : "No runs in this folder yet.";
  fill(list, shown.map(line), shown.length ? null : make("li.faint.small", {}, none));
}

function line(run) {
  const [mark, meaning] = STATES[run.state] ?? ["·", run.state];
  const current = run.id === state.run;
  const label = make(
    "a",
    { href: link({ run: run.id, view: state.view in ACROSS ? "playground" : state.view, target: "" }), "aria-current": current ? "true" : null, title: run.id },
    make("span.dot", { class: `dot ${run.state}`, title: meaning, "aria-label": meaning, role: "img" }, mark),
    make("span.name", {}, run.name),
    make("span.about", {}, [run.task, kindOf(run), run.state === "finished" ? null : meaning].filter(Boolean).join(" · ")),
    run.shown ? make("span.score", { title: run.metric }, make("span.faint", {}, `${run.metric_name} `), run.shown) : null,
  );
  const box = make("input", { type: "checkbox", checked: state.partners.includes(run.id), title: "Compare this run", "aria-label": `Compare ${run.name}` });
  box.addEventListener("change", () => {
    const partners = state.partners.filter((id) => id !== run.id);
    go({ partners: box.checked ? [...partners, run.id] : partners }, { replace: state.view !== "compare" });
  });
  return make("li", { class: current ? "current" : null }, label, run.state === "broken" ? null : box);
}

export const kindOf = (run) => run.kind?.replaceAll("_", " ");

// The score with the name and the digits that the terminal prints.
export const scoreOf = (run) => (run.shown ? `${run.metric_name} ${run.shown}` : null);

function across() {
  const count = state.partners.length;
  return make(
    "div.across",
    {},
    Object.entries(ACROSS)
      .filter(([view]) => view !== "ladder" || ladders.length)
      .map(([view, about]) =>
        make("a", { href: link({ view }), "aria-current": state.view === view ? "page" : null }, view === "compare" && count ? `Compare (${count})` : labelOf(view), make("span", {}, about)),
      ),
  );
}
