// Why does it forget? The gradient of new cells through time, with sliders for what decides it.

import { go, state } from "./address.js";
import { fill, make } from "./dom.js";
import { FigureView } from "./figure_view.js";
import { post } from "./server.js";

const DEFAULT_CELLS = ["elman", "lstm"];
const MAX_CELLS = 6; // as many as the server compares
const OPTIONS = {
  length: { kind: "int", default: 64, label: "length T", low: 2, high: 512 },
  hidden: { kind: "int", default: 64, label: "units", low: 2, high: 256 },
  radius: { kind: "float", default: 1, label: "spectral radius", low: 0.1, high: 2 },
  forget_bias: { kind: "float", default: 1, label: "forget bias", low: -3, high: 6 },
  seed: { kind: "int", default: 0, label: "seed", low: 0, high: 20 },
};

export function mountFresh(place, info) {
  const cells = () => (state.options.cells ? state.options.cells.split(",") : DEFAULT_CELLS.filter((name) => info.cells.includes(name)));
  const keep = (options) => go({ options }, { replace: true, silent: true });
  const figure = new FigureView({
    name: "fresh-cells",
    question: "Does learning reach the past?",
    options: OPTIONS,
    values: state.options,
    sliders: state.sliders,
    request: (options, signal) => post("/api/lesson/gradients", { ...numbers(options), cells: cells() }, { signal }),
    onoption: (options) => keep(state.options.cells ? { ...options, cells: state.options.cells } : options),
    onslider: (sliders) => go({ sliders }, { replace: true, silent: true }),
  });
  const choose = make("div.controls");
  const drawCells = () => {
    const chosen = cells();
    const box = (name) => {
      const input = make("input", { type: "checkbox", checked: chosen.includes(name) });
      input.addEventListener("change", () => {
        const next = input.checked ? [...chosen, name] : chosen.filter((one) => one !== name);
        if (!next.length || next.length > MAX_CELLS) return (input.checked = !input.checked);
        keep({ ...state.options, cells: next.join(",") });
        figure.values = state.options;
        drawCells();
        figure.load();
      });
      return make("label", {}, input, name);
    };
    fill(choose, make("fieldset", {}, make("legend", {}, "cells"), info.cells.map(box)));
  };
  drawCells();
  const why = make(
    "p.summary",
    {},
    "New cells, before any training, read a sequence of random vectors: drag the sliders and see how far the gradient reaches back.",
  );
  fill(place, figure.place);
  figure.question.after(why);
  figure.controls.before(choose);
  const update = () => {
    figure.values = state.options;
    figure.renderControls();
    drawCells();
    figure.load();
  };
  figure.load();
  return { update, dispose: () => figure.dispose() };
}

function numbers(options) {
  return Object.fromEntries(Object.entries(OPTIONS).map(([name, option]) => [name, Number(options[name] ?? option.default)]));
}
