// A view of one run, with the shared input.

import { go, state } from "./address.js";
import { showPointer } from "./details.js";
import { fill, make } from "./dom.js";
import { FigureView } from "./figure_view.js";
import { hasInput, inputOf } from "./input_bar.js";
import { events, post, runPath } from "./server.js";
import { stateSearch } from "./state_search.js";

const REDRAW = 2000; // milliseconds between two pictures of a training in progress

// What stands below the picture of a view.
const EXTRAS = { states: stateSearch };

export function mountRunView(place, run, details, view) {
  const figure = new FigureView({
    name: `${run.name}-${view.name}`,
    question: view.question,
    options: meaningful(view.options, details),
    values: state.options,
    sliders: state.sliders,
    request: (options, signal) => post(runPath(run.id, `view/${view.name}`), body(details, view, fitted(place, view, options)), { signal }),
    onoption: (options) => go({ options, sliders: {} }, { replace: true, silent: true }),
    onslider: (sliders) => go({ sliders }, { replace: true, silent: true }),
    openNumbers: view.name === "parameters", // the boxes are too narrow for their numbers
    oncontent: (found, extra) => EXTRAS[view.name]?.({ run, details, found, place: extra, showPointer }),
  });
  fill(place, figure.place);
  const stop = view.name === "curves" && run.state === "training" ? follow(run, figure) : () => {};
  const update = () => {
    if (view.takes_text && !hasInput(details)) {
      figure.clear();
      fill(figure.status, make("p.empty", {}, emptyText(details)));
      return;
    }
    figure.values = state.options;
    figure.renderControls();
    figure.load();
  };
  update();
  return { update, dispose: () => (stop(), figure.dispose()) };
}

// A run with one language has none to choose; several are offered as a list. The page itself knows the width.
function meaningful({ language, width, ...options }, details) {
  const choices = details.languages ?? [];
  if (!language || choices.length < 2) return options;
  return { language: { ...language, kind: "choice", default: choices[0], choices }, ...options };
}

const AXIS = 60; // pixels of the axis of a part below, which moves the lines to the right
const MOST = 1000;

// Lines of tokens are broken where the column ends.
function fitted(place, view, options) {
  const { low } = view.options.width ?? {};
  return low === undefined ? options : { width: Math.max(low, Math.min(MOST, place.clientWidth - AXIS)), ...options };
}

function body(details, view, options) {
  const given = { options };
  if (view.takes_text) given.text = inputOf(details);
  if (view.takes_target && state.target) given.target = state.target;
  return given;
}

function emptyText(details) {
  if (details.inputs === "picture") return "Choose a picture above, and this view shows what the model does with it.";
  if (details.inputs === "table") return "Paste a table above, or drop a file on it, and this view shows what the model does with it.";
  return "Type an input above and press Enter: every view shows what the model does with it.";
}

// Draws the curves again while the run trains.
function follow(run, figure) {
  const aborter = new AbortController();
  let timer = null;
  const redraw = () => {
    timer = null;
    figure.load();
  };
  (async () => {
    try {
      for await (const { event } of events(runPath(run.id, "events"), { signal: aborter.signal })) {
        if (event === "state") return redraw();
        if (event === "curve") timer ??= setTimeout(redraw, REDRAW); // the points that come until then are drawn too
      }
    } catch {
      // The stream ended with the server or with this view; the picture stays.
    }
  })();
  return () => (clearTimeout(timer), aborter.abort());
}
