// What the page knows about views before it asks the server: their labels, keys and order.

export const PLAYGROUND = "playground";

export const LABELS = {
  playground: "Playground",
  attention: "Attention",
  beam: "Beam",
  ranks: "Tokens",
  states: "States",
  gates: "Gates",
  gradients: "Gradients",
  positions: "Positions",
  neighbours: "Embeddings",
  parameters: "Parameters",
  curves: "Curves",
  compare: "Compare",
  ladder: "Ladder",
  fresh: "Fresh cells",
  learn: "Learn",
};

// Pressed after g.
export const KEYS = {
  p: "playground", a: "attention", b: "beam", t: "ranks", s: "states", g: "gates", r: "gradients", o: "positions", e: "neighbours", m: "parameters",
  c: "curves", x: "compare", d: "ladder", f: "fresh", l: "learn",
};

// Views that need no run of their own.
export const ACROSS = {
  compare: "runs side by side: scores, intervals, settings",
  ladder: "models of rising strength",
  fresh: "why does it forget? gradients of new cells",
  learn: "watch two small nets learn",
};

export const ACTIONS = {
  translate: "Translate", tag: "Tag", classify: "Classify", lm: "Write", caption: "Describe", forecast: "Forecast", mask: "Fill", embed: "Find", regress: "Rate",
};

export const INVITATIONS = {
  translate: "A sentence to translate",
  tag: "A sentence to tag",
  classify: "A text to classify",
  lm: "The beginning of a text",
  forecast: "A table as CSV: a header, then a row for each time. Paste it or drop a file.",
  mask: "A text with gaps, each written as [MASK]",
  embed: "A word, or king - man + woman",
};

export const STATES = { finished: ["●", "finished"], training: ["◐", "training"], stopped: ["○", "stopped before the end"], broken: ["✕", "cannot be read"] };

export const labelOf = (view) => LABELS[view] ?? view.replaceAll("_", " ");
