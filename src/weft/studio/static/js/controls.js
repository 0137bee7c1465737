// Controls made from the options of a view: a slider for numbers with bounds, a list for choices, a box for yes and no.

import { make, show } from "./dom.js";

const MAX_SLIDER = 600; // a slider with more steps cannot be set exactly
const SHOWN = window.matchMedia("(max-width: 899px)").matches ? 2 : 5; // further options are unfolded

export function controls(options, values, onchange) {
  const entries = Object.entries(options).map(([name, option]) => control(name, option, values[name] ?? option.default, (value) => onchange(name, value)));
  if (!entries.length) return null;
  const more = entries.slice(SHOWN);
  const set = Object.keys(options).slice(SHOWN).some((name) => name in values);
  return make("div.controls", {}, entries.slice(0, SHOWN), more.length ? make("details.more", { open: set }, make("summary", {}, "more options"), make("div.controls", {}, more)) : null);
}

function control(name, option, value, set) {
  const label = option.label || name.replaceAll("_", " ");
  if (option.kind === "bool") {
    const box = make("input", { type: "checkbox", checked: String(value) === "true", onchange: () => set(box.checked) });
    return make("label", { title: name }, box, label);
  }
  if (option.kind === "choice") {
    const choices = option.choices.map((choice) => make("option", { value: choice, selected: choice === value }, choice.replaceAll("_", " ")));
    const list = make("select", { onchange: () => set(list.value) }, choices);
    return make("label", { title: name }, label, list);
  }
  if (option.kind === "int" || option.kind === "float") return number(name, option, value, label, set);
  const box = make("input", { type: "text", dir: "auto", placeholder: option.kind === "words" ? "none; separate with commas" : "", onchange: () => set(box.value) });
  box.value = value ?? "";
  return make("label", { title: name }, label, box);
}

function number(name, option, value, label, set) {
  const whole = option.kind === "int";
  const bounded = option.low !== null && option.high !== null && option.low !== undefined && option.high !== undefined;
  const slides = bounded && value !== null && value !== "" && (!whole || option.high - option.low <= MAX_SLIDER);
  const step = whole ? 1 : bounded ? Number(((option.high - option.low) / 100).toPrecision(1)) : "any";
  const box = make("input", { type: slides ? "range" : "number", min: text(option.low), max: text(option.high), step: String(step), "aria-label": label });
  box.value = value ?? "";
  if (!slides) box.placeholder = "auto";
  const shown = slides ? make("output", {}, show(Number(value))) : null;
  box.addEventListener("input", () => {
    if (shown) shown.textContent = show(Number(box.value));
    if (slides) later(set, box);
  });
  if (!slides) box.addEventListener("change", () => set(box.value === "" ? null : box.value));
  return make("label", { title: name }, label, box, shown);
}

// A slider that is dragged asks for a picture when it rests.
const waiting = new WeakMap();
function later(set, box) {
  clearTimeout(waiting.get(box));
  waiting.set(box, setTimeout(() => set(box.value), 150));
}

const text = (bound) => (bound === null || bound === undefined ? null : String(bound));
