// Watch two small nets learn: the same toy task, the same data, two choices of cell, size and rate.

import { go, state } from "./address.js";
import { showSources } from "./details.js";
import { failure, fill, isAbort, make, percent, show } from "./dom.js";
import { CHARTS } from "./learn_charts.js";
import { Picture } from "./picture.js";
import { events, post } from "./server.js";

const SIDES = ["a", "b"];
const DEFAULTS = { a: { cell: "elman", hidden: 32, rate: 0.003 }, b: { cell: "lstm", hidden: 32, rate: 0.003 }, toy: "", steps: 1000, seed: 0 };

const TRANSFORMER = "transformer";

const modelKind = (cell) => (cell === TRANSFORMER ? { kind: TRANSFORMER } : { kind: "rnn", cell });

export function mountLearn(place, info) {
  const lesson = new Lesson(info);
  fill(place, lesson.place);
  return { update: () => lesson.drawSettings(), dispose: () => lesson.dispose() };
}

class Lesson {
  constructor(info) {
    this.info = info;
    this.pictures = Object.fromEntries(Object.keys(CHARTS).map((name) => [name, new Picture()]));
    this.settings = make("div");
    this.buttons = make("div.tools");
    this.status = make("div", { "aria-live": "polite" });
    this.progress = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "Progress of the training" });
    this.examples = make("div.pair");
    this.charts = make("div.pair", { hidden: true });
    for (const [name, { title }] of Object.entries(CHARTS)) {
      this.charts.append(make("section", { id: `learn-${name}`, hidden: true }, make("h3", {}, title), this.pictures[name].place));
    }
    this.place = make(
      "article",
      {},
      make("h2.question", {}, "How does a small net learn?"),
      make("p.summary", {}, "Two nets learn the same task from the same examples. Watch the loss fall, examples turn right, gates open and close, and how far back the gradient reaches."),
      this.settings, this.buttons, this.status, this.progress, this.charts, this.examples,
    );
    this.drawSettings();
    this.drawButtons();
    showSources({ equation: "θ' = θ − η ∇L(θ)" });
  }

  value(name, side) {
    const key = side ? `${side}.${name}` : name;
    const fallback = side ? DEFAULTS[side][name] : DEFAULTS[name];
    return state.options[key] ?? fallback;
  }

  drawSettings() {
    const set = (key, value) => go({ options: { ...state.options, [key]: String(value) } }, { replace: true, silent: true });
    const choice = (label, key, value, choices) => {
      const list = make("select", { onchange: () => set(key, list.value) }, choices.map((one) => make("option", { value: one, selected: one === value }, one.replaceAll("_", " "))));
      return make("label", {}, label, list);
    };
    const number = (label, key, value, low, high, step) => {
      const box = make("input", { type: "number", min: String(low), max: String(high), step: String(step), onchange: () => box.checkValidity() && set(key, box.value) });
      box.value = value;
      return make("label", {}, label, box);
    };
    const side = (one, place) =>
      make(
        "section",
        {},
        make("h3", {}, `Model ${place + 1}`),
        make("div.controls", {}, choice("cell", `${one}.cell`, this.value("cell", one), [...this.info.cells, TRANSFORMER]), number("units", `${one}.hidden`, this.value("hidden", one), 2, 256, 1), number("rate η", `${one}.rate`, this.value("rate", one), 0.00001, 1, 0.0001)),
      );
    const toy = this.value("toy") || this.info.toys[0];
    fill(
      this.settings,
      make("div.controls", {}, choice("task", "toy", toy, this.info.toys), number("steps", "steps", this.value("steps"), 1, 100000, 1), number("seed", "seed", this.value("seed"), 0, 100000, 1)),
      make("div.pair", {}, SIDES.map(side)),
    );
  }

  drawButtons() {
    const button = (label, action, more = {}) => make("button", { type: "button", onclick: action, ...more }, label);
    const running = Boolean(this.id);
    fill(
      this.buttons,
      running ? null : button("Start", () => this.start(), { class: "main" }),
      running && !this.paused ? button("pause", () => this.command("pause")) : null,
      running && this.paused ? button("go on", () => this.command("resume")) : null,
      running && this.paused ? button("one step", () => this.command("step")) : null,
      running ? button("stop", () => this.command("stop")) : null,
    );
  }

  async start() {
    if (!this.info.writable) {
      fill(this.status, failure({ message: "This studio only reads.", cure: "Start weft studio without --read-only to train in it." }));
      return;
    }
    const models = SIDES.map((side) => ({ ...modelKind(this.value("cell", side)), hidden: Number(this.value("hidden", side)), rate: Number(this.value("rate", side)) }));
    this.names = SIDES.map((side, place) => `${place + 1} · ${models[place].cell ?? models[place].kind} ${models[place].hidden}`);
    this.steps = Number(this.value("steps"));
    fill(this.status, make("p.waiting", {}, "Starting …"));
    fill(this.examples);
    this.latest = {};
    this.scores = {};
    this.drawn = new Set();
    try {
      const { id } = await post("/api/learn", { models, toy: this.value("toy") || this.info.toys[0], steps: this.steps, seed: Number(this.value("seed")) });
      this.id = id;
      this.paused = false;
      this.charts.hidden = false;
      this.progress.hidden = false;
      this.points = { loss: [], accuracy: [], gradients: {}, gates: {} };
      this.drawButtons();
      fill(this.status);
      await this.follow();
    } catch (error) {
      if (!isAbort(error)) fill(this.status, failure(error));
    }
    this.id = null;
    this.drawButtons();
  }

  async follow() {
    this.aborter = new AbortController();
    for await (const { event, data } of events(`/api/learn/${this.id}/events`, { signal: this.aborter.signal })) {
      if (event === "update") this.take(data);
      else if (event === "error") throw Object.assign(new Error(data.message ?? data.error?.message), { cure: data.cure ?? data.error?.cure });
      else if (event === "state") this.showState(data.state);
      else if (event === "done") {
        if (data.reason === "failed") throw new Error(data.message);
        break;
      }
    }
    this.flush();
    const scores = Object.entries(this.scores).map(([place, accuracy]) => `${this.names[place]}: ${percent(accuracy)} right`);
    fill(this.status, make("p", { id: "learned" }, `Done. ${scores.join(", ")}.`));
    this.progress.hidden = true;
  }

  showState(found) {
    this.paused = found === "paused";
    this.drawButtons();
  }

  take(data) {
    const name = this.names[data.model];
    if (typeof data.loss === "number") this.points.loss.push({ model: name, step: data.step, loss: data.loss });
    if (typeof data.accuracy === "number") {
      this.points.accuracy.push({ model: name, step: data.step, accuracy: data.accuracy });
      this.scores[data.model] = data.accuracy;
    }
    if (data.gradients) this.points.gradients[data.model] = overTime(data.gradients.norms, data.gradients.tokens, (norm) => ({ model: name, norm: Math.max(norm, SMALLEST) }));
    if (data.gates) this.points.gates[data.model] = Object.entries(data.gates.means).flatMap(([gate, means]) => overTime(means, data.gates.tokens, (value) => ({ model: name, gate, value })));
    if (data.examples) this.latest[data.model] = data.examples;
    this.progress.value = data.step / this.steps;
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.flush();
    });
  }

  flush() {
    for (const [name, points] of Object.entries(this.points)) {
      const values = Array.isArray(points) ? thin(points) : Object.values(points).flat();
      if (values.length) this.move(name, values);
    }
    fill(this.examples, Object.entries(this.latest).map(([place, examples]) => exampleTable(this.names[place], examples)));
  }

  // A chart is drawn with its first points; later ones only change its data.
  move(name, values) {
    const picture = this.pictures[name];
    this.place.querySelector(`#learn-${name}`).hidden = false;
    if (this.drawn.has(name)) {
      if (picture.view) picture.view.data(name, values.map((value) => ({ ...value }))).runAsync();
      return;
    }
    this.drawn.add(name);
    picture.draw(CHARTS[name].draw(values), { label: CHARTS[name].title }).catch((error) => fill(this.status, failure(error)));
  }

  async command(what) {
    try {
      await post(`/api/learn/${this.id}/${what}`);
      if (what === "pause") this.paused = true;
      if (what === "resume") this.paused = false;
      this.drawButtons();
    } catch (error) {
      fill(this.status, failure(error));
    }
  }

  dispose() {
    if (this.id) post(`/api/learn/${this.id}/stop`).catch(() => {});
    this.aborter?.abort();
    Object.values(this.pictures).forEach((picture) => picture.dispose());
  }
}

const SMALLEST = 1e-12; // a logarithmic axis has no zero

const overTime = (values, tokens, point) => values.map((value, place) => ({ ...point(value), time: place + 1, token: tokens?.[place] }));

// No screen shows more points of a line than this.
const thin = (points, limit = 800) => (points.length <= limit ? points : points.filter((_, place) => place % Math.ceil(points.length / limit) === 0 || place >= points.length - 2));

function exampleTable(name, examples) {
  const row = (example) => {
    const right = example.right ?? example.correct ?? example.answer === example.expected;
    return make(
      "tr",
      {},
      make("td", { dir: "auto" }, text(example.input)),
      make("td", { dir: "auto" }, text(example.expected ?? example.target)),
      make("td", { dir: "auto", class: right ? "right" : "wrong" }, `${right ? "✓" : "✗"} ${text(example.answer ?? example.predicted ?? example.output)}`),
    );
  };
  const heads = ["input", "right answer", "its answer"].map((heading) => make("th", { scope: "col" }, heading));
  return make("section.examples", {}, make("h3", {}, name), make("div.scroll", {}, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, examples.slice(0, 8).map(row)))));
}

const text = (value) => (Array.isArray(value) ? value.map((one) => show(one, 2)).join(" ") : show(value, 2));
