// A chart in its place: drawn without flicker, drawn again when the colours change, with its pointer and its downloads.

import { download, drawChart } from "/static/figure.js";
import { showDatum } from "./details.js";
import { fill, make, notice } from "./dom.js";
import { isDark, onTheme } from "./theme.js";

const pictures = new Set();
let themes = null;
let library = null;

export function setThemes(found) {
  themes = found;
}

// Vega is large, so it is fetched once the page stands.
export function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const script = make("script", { src: "/static/vega.js" });
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("The library that draws charts could not be loaded.")));
    document.head.append(script);
  });
  return library;
}

export class Picture {
  constructor({ sliders = {}, onslider = null } = {}) {
    this.place = make("div.chart", { tabindex: "0", role: "figure" });
    this.sliders = sliders;
    this.onslider = onslider;
    this.number = 0;
    pictures.add(this);
  }

  // The old chart stays until the new one is ready.
  async draw(specification, { label = "" } = {}) {
    const number = ++this.number;
    this.specification = specification;
    this.label = label;
    if (!window.vegaEmbed) fill(this.place, make("p.waiting", {}, "Preparing the charts …"));
    await loadLibrary();
    if (number !== this.number) return;
    const inner = make("div");
    const stage = make("div", { style: { position: "absolute", visibility: "hidden" } }, inner);
    document.body.append(stage);
    const fitted = fit(restored(specification, this.sliders), this.place.clientWidth);
    const view = await drawChart(inner, fitted, themes, { dark: isDark() });
    stage.remove();
    if (number !== this.number) return view.finalize();
    const left = this.place.scrollLeft;
    this.view?.finalize();
    this.view = view;
    this.place.vegaView = view;
    this.place.setAttribute("aria-label", label ? `${label}. The numbers stand below.` : "chart");
    fill(this.place, inner);
    this.place.scrollLeft = left;
    this.listen(specification);
  }

  listen(specification) {
    const about = { keys: tokenFields(specification), titles: fieldTitles(specification) };
    let last = null;
    const point = (_, item) => {
      if (!item?.datum || item === last || item.mark?.role !== "mark") return;
      last = item;
      // What a view shows in its tooltip it has named and rounded for people.
      const told = item.tooltip !== null && typeof item.tooltip === "object";
      showDatum(told ? item.tooltip : (item.datum.datum ?? item.datum), told ? {} : about);
    };
    this.view.addEventListener("pointermove", point);
    this.view.addEventListener("pointerdown", point);
    for (const { name } of sliderParams(specification)) {
      this.view.addSignalListener(name, (_, value) => {
        this.sliders = { ...this.sliders, [name]: value };
        this.onslider?.(this.sliders);
      });
    }
  }

  redraw() {
    if (this.specification && this.place.isConnected) this.draw(this.specification, { label: this.label }).catch(() => {});
  }

  // Buttons that save the picture as it is now.
  saves(name) {
    const save = (label, make_content, type) =>
      make("button", { type: "button", title: `Save the picture as ${label}`, onclick: async () => download(`${name}.${label.toLowerCase()}`, await make_content(), type) }, label);
    return [save("SVG", () => this.view.toSVG(), "image/svg+xml"), save("PNG", () => this.view.toImageURL("png", 2), "image/png")];
  }

  tools(name, data) {
    return make("div.tools", {}, linkButton(), this.saves(name), dataButton(name, data));
  }

  dispose() {
    this.number += 1;
    this.view?.finalize();
    pictures.delete(this);
  }
}

export function linkButton() {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      notice("The link is copied: it shows this run, view, input and options.");
    } catch {
      notice("Copy the address of this page: it holds everything.");
    }
  };
  return make("button", { type: "button", title: "Copy a link to this view", onclick: copy }, "link");
}

export function dataButton(name, data) {
  return make("button", { type: "button", title: "Save the numbers as JSON", onclick: () => download(`${name}.json`, JSON.stringify(data(), null, 1)) }, "data");
}

// Everything in a specification, at any depth.
function* parts(value) {
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return;
  if (!Array.isArray(value)) yield value;
  for (const [name, inner] of Object.entries(value)) if (name !== "data" && name !== "datasets" && name !== "values") yield* parts(inner);
}

const sliderParams = (specification) => (specification.params ?? []).filter((param) => param.bind && !param.select);

function restored(specification, sliders) {
  if (!Object.keys(sliders).length) return specification;
  const params = (specification.params ?? []).map((param) => {
    if (!param.bind || param.select || !(param.name in sliders)) return param;
    const value = sliders[param.name];
    return { ...param, value: typeof param.value === "number" ? Number(value) : typeof param.value === "boolean" ? String(value) === "true" : value };
  });
  return { ...specification, params };
}

const MIN_WIDTH = 260; // pixels
const MAX_WIDTH = 880;
const ORDINARY_WIDTH = 900; // a chart that asks for more is meant to scroll
const SIDE_BY_SIDE = 680; // parts stand below each other in a narrower place
const BESIDE = 150; // axis and legend of a part of several

// A chart over a continuous axis becomes as wide as its place; one with words in it, or a column for each token, keeps its
// width and scrolls.
function fit(specification, available) {
  if (!available) return specification;
  const { hconcat, ...rest } = specification;
  if (hconcat && available < SIDE_BY_SIDE) return fit({ ...rest, vconcat: hconcat }, available);
  if (specification.vconcat) return { ...specification, vconcat: specification.vconcat.map((part) => (fits(part) ? { ...part, width: Math.max(MIN_WIDTH, Math.min(part.width ?? 300, available - BESIDE)) } : part)) };
  if (!fits(specification) || sliderParams(specification).length) return specification;
  return { ...specification, width: Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, available - 4)), autosize: { type: "fit-x", contains: "padding" } };
}

function fits({ mark, layer, width = 300, height, encoding }) {
  const continuous = [encoding, ...(layer ?? []).map((one) => one.encoding)].every((one) => !["nominal", "ordinal"].includes(one?.x?.type) && !one?.column && !one?.facet);
  const words = [mark, ...(layer ?? []).map((one) => one.mark)].some((one) => (one?.type ?? one) === "text");
  return Boolean(mark || layer) && continuous && !words && typeof height !== "object" && typeof width === "number" && width <= ORDINARY_WIDTH;
}

// Fields whose values are places and tokens in one text, such as 00003cat.
function tokenFields(specification) {
  const found = new Set();
  for (const part of parts(specification)) if (part.field && String(part.axis?.labelExpr ?? "").includes("slice(datum.value")) found.add(part.field);
  return found;
}

function fieldTitles(specification) {
  const found = {};
  for (const part of parts(specification)) {
    const title = part.title ?? part.axis?.title ?? part.legend?.title;
    if (typeof part.field === "string" && typeof title === "string") found[part.field] = title;
  }
  return found;
}

onTheme(() => pictures.forEach((picture) => picture.redraw()));
