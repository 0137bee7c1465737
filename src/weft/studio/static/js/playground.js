// What the model answers: one run, or two side by side, with links that open every view with the same input.

import { go, link, state } from "./address.js";
import { drawAnswer } from "./answers.js";
import { labelOf } from "./catalog.js";
import { controls } from "./controls.js";
import { showSources } from "./details.js";
import { failure, fill, isAbort, make } from "./dom.js";
import { waiting } from "./figure_view.js";
import { hasInput, inputOf } from "./input_bar.js";
import { dataButton, linkButton } from "./picture.js";
import { allRuns, runOf } from "./runs.js";
import { events, get, post, runPath } from "./server.js";

const WRITING = {
  n_best: { kind: "int", default: 3, label: "answers", low: 1, high: 10 },
  beam: { kind: "int", default: 4, label: "beam", low: 1, high: 20 },
  sample: { kind: "bool", default: false, label: "draw at random" },
  temperature: { kind: "float", default: 1, label: "temperature", low: 0.1, high: 2 },
  max_length: { kind: "int", default: null, label: "longest", low: 1, high: 1000 },
};
const STREAMED = {
  sample: { kind: "bool", default: true, label: "draw at random" },
  temperature: { kind: "float", default: 0.8, label: "temperature", low: 0.1, high: 2 },
  top_p: { kind: "float", default: 0.95, label: "top p", low: 0.05, high: 1 },
  max_length: { kind: "int", default: 200, label: "longest", low: 1, high: 1000 },
  seed: { kind: "int", default: 0, label: "seed", low: 0, high: 100 },
};

export function mountPlayground(place, run, details) {
  const streams = run.task === "lm";
  const offered = { ...languageChoice(details), ...(!details.writes ? {} : streams ? STREAMED : WRITING) };
  const panes = make("div.answers");
  const bar = make("div");
  const tools = make("div.tools");
  fill(place, make("h2.question", {}, "What does it answer, and how sure is it?"), reading(details, streams), bar, panes, tools);
  let shown = [];
  const set = (name, value) => {
    const { [name]: _, ...rest } = state.options;
    go({ options: value === null || String(value) === String(offered[name].default) ? rest : { ...rest, [name]: String(value) } }, { replace: true });
  };
  const update = () => {
    shown.forEach((pane) => pane.stop());
    fill(bar, make("div.controls", {}, ...(controls(relevant(offered), state.options, set)?.childNodes ?? []), partnerChoice(run)));
    if (!hasInput(details)) {
      fill(panes, make("p.empty", {}, details.inputs === "picture" ? "Choose a picture above." : details.inputs === "table" ? "Paste a table above, or drop a file on it." : `Type above and press Enter${details.examples?.length ? ", or try one of the examples" : ""}.`));
      fill(tools);
      showSources({});
      return;
    }
    const partner = state.partners.map(runOf).find((other) => other && other.id !== run.id && other.task === run.task);
    shown = [pane(run, details, offered, streams), ...(partner && state.options.beside === "true" ? [pane(partner, null, offered, streams)] : [])];
    fill(panes, shown.map((one) => one.place));
    showSources(about(details));
    fill(tools, linkButton(), dataButton(run.name, () => shown.map((one) => ({ run: one.run.id, predictions: one.predictions }))));
  };
  update();
  return { update, dispose: () => shown.forEach((one) => one.stop()) };
}

function reading(details, streams) {
  if (!details.writes) return null;
  return make("p.summary", {}, streams ? "The text appears as it is written; grey is what you gave." : "Each token of the answer is underlined by its probability: a faint line is a guess.");
}

// Temperature and its kin act only where tokens are drawn, the beam only where they are not.
function relevant(offered) {
  const draws = String(state.options.sample ?? offered.sample?.default) === "true";
  return Object.fromEntries(Object.entries(offered).filter(([name]) => (draws ? name !== "beam" : !["temperature", "top_p", "seed"].includes(name))));
}

function languageChoice(details) {
  const languages = details.languages ?? [];
  return languages.length > 1 ? { language: { kind: "choice", default: languages[0], label: "to", choices: languages } } : {};
}

function partnerChoice(run) {
  const others = allRuns().filter((other) => other.task === run.task && other.id !== run.id && other.state !== "broken");
  if (!others.length) return null;
  const current = state.options.beside === "true" ? (state.partners.find((id) => others.some((other) => other.id === id)) ?? "") : "";
  const list = make("select", {}, make("option", { value: "" }, "–"), others.map((other) => make("option", { value: other.id, selected: other.id === current }, other.name)));
  list.addEventListener("change", () => {
    const { beside, ...options } = state.options;
    if (!list.value) return go({ options }, { replace: true });
    go({ partners: [list.value, ...state.partners.filter((id) => id !== list.value)], options: { ...options, beside: "true" } }, { replace: true });
  });
  return make("label", {}, "beside", list);
}

function chosen(offered) {
  const found = {};
  for (const [name, option] of Object.entries(relevant(offered))) {
    const value = state.options[name] ?? option.default;
    if (value === null) continue;
    found[name] = option.kind === "bool" ? String(value) === "true" : option.kind === "choice" ? value : Number(value);
  }
  if (found.beam !== undefined && found.n_best > found.beam) found.beam = found.n_best;
  return found;
}

const about = (details) => ({ card: details.card, settings: details.config && JSON.stringify(details.config, null, 1) });

function pane(run, details, offered, streams) {
  const aborter = new AbortController();
  const status = make("div", { "aria-live": "polite" }, waiting("Answering …", () => aborter.abort()));
  const content = make("div");
  const found = { run, place: make("section.answer", {}, make("h3", {}, run.name), status, content), stop: () => aborter.abort(), predictions: [] };
  const ask = async () => {
    try {
      const known = details ?? (await get(runPath(run.id, "details"), { signal: aborter.signal }));
      const asked = { text: inputOf(known), options: chosen(offered) };
      const answer = streams ? await streamed(run, asked, content, aborter.signal) : await post(runPath(run.id, "predict"), asked, { signal: aborter.signal });
      found.predictions = answer.predictions;
      await drawAnswer(content, answer, { run, links: (target) => links(run, known, target) });
      if (details && answer.code && !aborter.signal.aborted) showSources({ code: answer.code, ...about(details) });
      fill(status);
    } catch (error) {
      fill(status, isAbort(error) ? make("p.faint.small", {}, "Stopped.") : failure(error));
    }
  };
  ask();
  return found;
}

async function streamed(run, asked, content, signal) {
  const given = make("span.faint");
  const text = make("span");
  let whole = "";
  let code = null;
  fill(content, make("p.text", { dir: "auto" }, given, text));
  for await (const { event, data } of events(runPath(run.id, "stream"), { body: asked, signal })) {
    if (event === "error") throw Object.assign(new Error(data.message), { cure: data.cure });
    if (event === "done") code = data.code;
    if (event !== "piece") continue;
    whole += data.text;
    [given.textContent, text.textContent] = apart(whole, asked.text);
  }
  const [source, written] = apart(whole, asked.text);
  return { predictions: [{ source, text: written }], streamed: true, code };
}

// The text of a language model begins with its prompt.
const apart = (whole, prompt) => (whole.startsWith(prompt) ? [prompt, whole.slice(prompt.length)] : prompt.startsWith(whole) ? [whole, ""] : ["", whole]);

// Links that open the other views with the same input; an answer of the list is shown as the target.
function links(run, details, target = "") {
  const shown = details.views.filter((view) => !["curves", "parameters", "positions", "neighbours"].includes(view));
  return make("div.links", {}, shown.map((view) => make("a", { href: link({ run: run.id, view, target }) }, labelOf(view).toLowerCase())));
}
