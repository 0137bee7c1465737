// The moving charts of Learn: each has one set of data that grows or is replaced.

const SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json";
const model = { field: "model", type: "nominal", sort: null, legend: { title: null, orient: "top" } };
const quantity = (field, title, more = {}) => ({ field, type: "quantitative", axis: { title }, ...more });

const line = (name, encoding) => (values) => ({
  $schema: SCHEMA,
  width: 300,
  height: 180,
  data: { name, values },
  mark: { type: "line", strokeWidth: 2, interpolate: "monotone" },
  encoding,
});

const lossChart = line("loss", { x: quantity("step", "step", { axis: { title: "step", tickMinStep: 1 } }), y: quantity("loss", "loss", { scale: { zero: true } }), color: model });

const accuracyChart = line("accuracy", { x: quantity("step", "step", { axis: { title: "step", tickMinStep: 1 } }), y: quantity("accuracy", "accuracy", { scale: { domain: [0, 1] }, axis: { title: "accuracy", format: "%" } }), color: model });

const gradientChart = line("gradients", { x: quantity("time", "time step", { axis: { title: "time step", tickMinStep: 1 } }), y: quantity("norm", "gradient norm", { scale: { type: "log" }, axis: { title: "gradient that reaches it", format: "~e", tickCount: 5 } }), color: model });

const gateChart = line("gates", { x: quantity("time", "time step", { axis: { title: "time step", tickMinStep: 1 } }), y: quantity("value", "mean", { scale: { domain: [0, 1] }, axis: { title: "mean of the gate" } }), color: model, strokeDash: { field: "gate", type: "nominal", legend: { title: null, orient: "top" } } });

export const CHARTS = {
  loss: { title: "Loss", draw: lossChart },
  accuracy: { title: "Right answers", draw: accuracyChart },
  gradients: { title: "Gradient flow", draw: gradientChart },
  gates: { title: "Gates", draw: gateChart },
};
