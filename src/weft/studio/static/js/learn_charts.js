// The moving charts of Learn: each has one set of data that grows or is replaced.

const SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json";
// Powers of ten alone have a label: 1e-9, 0.01, 1
const POWER = "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) > 1e-6 ? '' : datum.value < 1e-3 ? format(datum.value, '.0e') : format(datum.value, '~g')";
const MAX_TOKENS = 24; // of a longer example the axis has numbers
// A model keeps its colour in a chart that has nothing of the other one.
const coloured = (names) => ({ field: "model", type: "nominal", sort: null, scale: { domain: names }, legend: { title: null, orient: "top" } });
const quantity = (field, title, more = {}) => ({ field, type: "quantitative", axis: { title }, ...more });

const line = (name, encoding) => (values, names) => ({
  $schema: SCHEMA,
  width: 300,
  height: 180,
  data: { name, values },
  mark: { type: "line", strokeWidth: 2 },
  encoding: { ...encoding, color: coloured(names) },
});

const lossChart = line("loss", { x: quantity("step", "step", { axis: { title: "step", tickMinStep: 1 } }), y: quantity("loss", "loss", { scale: { zero: true } }) });

const accuracyChart = line("accuracy", { x: quantity("step", "step", { axis: { title: "step", tickMinStep: 1 } }), y: quantity("accuracy", "accuracy", { scale: { domain: [0, 1] }, axis: { title: "accuracy", format: "%" } }) });

const gradientChart = line("gradients", { x: quantity("time", "time step", { axis: { title: "time step", tickMinStep: 1 } }), y: quantity("norm", "gradient norm", { scale: { type: "log" }, axis: { title: "gradient that reaches it", labelExpr: POWER } }) });

// The gates are those of one example, whose tokens stand below them.
function gateChart(values, names) {
  const tokens = values.reduce((found, { time, token }) => ((found[time - 1] = token ?? ""), found), []);
  const fits = tokens.length <= MAX_TOKENS;
  const axis = fits ? { title: "token that it reads", values: tokens.map((_, place) => place + 1), labelExpr: `${JSON.stringify(tokens)}[datum.value - 1]`, labelOverlap: false } : { title: "time step", tickMinStep: 1 };
  const encoding = { x: quantity("time", "time step", { axis }), y: quantity("value", "mean", { scale: { domain: [0, 1] }, axis: { title: "mean of the gate" } }), strokeDash: { field: "gate", type: "nominal", legend: { title: null, orient: "top" } } };
  return line("gates", encoding)(values, names);
}

export const CHARTS = {
  loss: { title: "Loss", draw: lossChart },
  accuracy: { title: "Right answers", draw: accuracyChart },
  gradients: { title: "Gradient flow", draw: gradientChart },
  gates: { title: "Gates", draw: gateChart },
};
