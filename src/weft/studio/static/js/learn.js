// Watch two small nets learn: the same toy task, the same data, two choices of cell, size and rate.

import { go, state } from "./address.js";
import { showSources } from "./details.js";
import { failure, fill, isAbort, make, percent } from "./dom.js";
import { CHARTS } from "./learn_charts.js";
import { dataButton, linkButton, Picture } from "./picture.js";
import { events, post } from "./server.js";

const SIDES = ["a", "b"];
const DEFAULT_CELLS = { a: "elman", b: "lstm" };
const TRANSFORMER = "transformer";
const BUSY = 409;

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
    const record = () => ({ toy: this.toy, models: this.names, ...this.points, examples: this.latest });
    this.tools = make("div.tools", { hidden: true }, linkButton(), dataButton("learn", record));
    for (const [name, { title }] of Object.entries(CHARTS)) {
      const saves = make("div.tools", {}, this.pictures[name].saves(`learn-${name}`));
      this.charts.append(make("section", { id: `learn-${name}`, hidden: true }, make("h3", {}, title), this.pictures[name].place, saves));
    }
    this.place = make(
      "article",
      {},
      make("h2.question", {}, "How does a small net learn?"),
      make("p.summary", {}, "Two nets learn the same task from the same examples. Watch the loss fall, examples turn right, gates open and close, and how far back the gradient reaches."),
      this.settings, this.buttons, this.status, this.progress, this.charts, this.examples, this.tools,
    );
    this.leave = () => this.stop();
    window.addEventListener("pagehide", this.leave);
    this.drawSettings();
    this.drawButtons();
    showSources({ equation: "g  = ∇L(θ), cut to the norm 1\nm' = 0.9 m + 0.1 g\nv' = 0.999 v + 0.001 g²\nθ' = θ − η m̂ / (√v̂ + ε), Adam; m̂ and v̂ without their start at 0" });
  }

  get toy() {
    return this.info.toys.includes(state.options.toy) ? state.options.toy : this.info.toys[0];
  }

  // The choice in the address, or the default that the server names.
  number(name, side) {
    const { learn, toy_kinds: toys } = this.info;
    const fallback = { size: toys[this.toy].size.default, steps: toys[this.toy].steps, seed: 0, rate: learn.rates[this.model(side).kind] };
    return Number(state.options[side ? `${side}.${name}` : name] ?? fallback[name] ?? learn[name].default);
  }

  model(side) {
    const cell = side ? (state.options[`${side}.cell`] ?? DEFAULT_CELLS[side]) : "";
    return cell === TRANSFORMER ? { kind: TRANSFORMER } : { kind: "rnn", cell };
  }

  drawSettings() {
    const { learn, toy_kinds: toys } = this.info;
    const toy = toys[this.toy];
    const set = (key, value, more = {}) => go({ options: { ...state.options, [key]: String(value), ...more } }, { replace: true, silent: true });
    const choice = (label, value, choices, onchoice) => {
      const list = make("select", { onchange: () => onchoice(list.value) }, choices.map((one) => make("option", { value: one, selected: one === value }, one.replaceAll("_", " "))));
      return make("label", {}, label, list);
    };
    const number = (label, name, bounds, side = "", step = 1) => {
      const box = make("input", { type: "number", min: String(bounds.low), max: String(bounds.high), step: String(step), onchange: () => box.reportValidity() && set(side ? `${side}.${name}` : name, box.value) });
      box.value = this.number(name, side);
      return make("label", {}, label, box);
    };
    const newToy = (name) => {
      const { size, steps, ...rest } = state.options;
      go({ options: { ...rest, toy: name } }, { replace: true, silent: true });
      this.drawSettings();
    };
    const newCell = (side) => (cell) => {
      set(`${side}.cell`, cell);
      this.drawSettings();
    };
    const model = (side, place) =>
      make(
        "section",
        {},
        make("h3", {}, `Model ${place + 1}`),
        make("div.controls", {}, choice("cell", this.model(side).cell ?? TRANSFORMER, [...this.info.cells, TRANSFORMER], newCell(side)), number("units", "hidden", learn.hidden, side), number("layers", "layers", learn.layers, side), number("rate η", "rate", learn.rate, side, "any")),
      );
    fill(
      this.settings,
      make("div.controls", {}, choice("task", this.toy, this.info.toys, newToy), number(toy.size.label, "size", toy.size), number("updates", "steps", learn.steps), number("seed", "seed", { low: 0, high: 1000000 })),
      make("p.summary", {}, toy.question),
      make("div.pair", {}, SIDES.map(model)),
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

  // One training runs at a time; that of a page that was closed may have to be replaced.
  async start(replace = false) {
    if (!this.info.writable) {
      fill(this.status, failure({ message: "This studio trains nothing.", cure: "Open the address that weft studio printed, with its token." }));
      return;
    }
    const models = SIDES.map((side) => ({ ...this.model(side), hidden: this.number("hidden", side), layers: this.number("layers", side), rate: this.number("rate", side) }));
    this.names = SIDES.map((side, place) => `${place + 1} · ${models[place].cell ?? models[place].kind} ${models[place].hidden}`);
    this.steps = this.number("steps");
    fill(this.status, make("p.waiting", {}, "Starting …"));
    fill(this.examples);
    this.latest = {};
    this.scores = {};
    this.drawn = new Set();
    this.ended = "Ended.";
    try {
      const { id } = await post("/api/learn", { models, toy: this.toy, size: this.number("size"), steps: this.steps, seed: this.number("seed"), replace });
      this.id = id;
      this.paused = false;
      this.charts.hidden = this.tools.hidden = false;
      this.progress.hidden = false;
      this.points = { loss: [], accuracy: [], gradients: {}, gates: {} };
      this.drawButtons();
      await this.follow();
    } catch (error) {
      const busy = error.status === BUSY;
      const instead = make("button", { type: "button", onclick: () => this.start(true) }, "stop it and start this one");
      if (!isAbort(error)) fill(this.status, failure(error), busy ? instead : null);
    }
    this.id = null;
    this.progress.hidden = true;
    this.drawButtons();
  }

  async follow() {
    this.aborter = new AbortController();
    for await (const { event, data } of events(`/api/learn/${this.id}/events`, { signal: this.aborter.signal })) {
      if (event === "update") {
        if (!this.drawn.size) fill(this.status);
        this.take(data);
      }
      else if (event === "error") throw Object.assign(new Error(data.message), { cure: data.cure });
      else if (event === "state") this.showState(data.state);
      else if (event === "done") {
        if (data.reason === "failed") throw new Error(data.message);
        this.ended = { finished: "Done.", stopped: "Stopped.", time: "The time is over." }[data.reason] ?? "Ended.";
        break;
      }
    }
    this.flush();
    const scores = Object.entries(this.scores).map(([place, accuracy]) => `${this.names[place]}: ${percent(accuracy)} right`);
    fill(this.status, make("p", { id: "learned" }, `${this.ended} ${scores.join(", ")}.`));
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
    if (data.gates) this.points.gates[data.model] = data.gates.names.flatMap((gate, place) => overTime(data.gates.values[place], data.gates.tokens, (value) => ({ model: name, gate, value })));
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
    picture.draw(CHARTS[name].draw(values, this.names), { label: CHARTS[name].title }).catch((error) => fill(this.status, failure(error)));
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

  stop() {
    if (this.id) post(`/api/learn/${this.id}/stop`, {}, { keepalive: true }).catch(() => {});
  }

  dispose() {
    this.stop();
    window.removeEventListener("pagehide", this.leave);
    this.aborter?.abort();
    Object.values(this.pictures).forEach((picture) => picture.dispose());
  }
}

const SMALLEST = 1e-12; // a logarithmic axis has no zero

const overTime = (values, tokens, point) => values.map((value, place) => ({ ...point(value), time: place + 1, token: tokens?.[place] }));

// No screen shows more points of a line than this.
const thin = (points, limit = 800) => (points.length <= limit ? points : points.filter((_, place) => place % Math.ceil(points.length / limit) === 0 || place >= points.length - 2));

function exampleTable(name, examples) {
  const row = ({ input, expected, answer, right }) =>
    make(
      "tr",
      {},
      make("td", { dir: "auto" }, input),
      make("td", { dir: "auto" }, expected),
      make("td", { dir: "auto", class: right ? "right" : "wrong" }, `${right ? "✓" : "✗"} ${answer}`),
    );
  const heads = ["input", "right answer", "its answer"].map((heading) => make("th", { scope: "col" }, heading));
  return make("section.examples", {}, make("h3", {}, name), make("div.scroll", {}, make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, examples.map(row)))));
}
