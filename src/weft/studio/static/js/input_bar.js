// The one input of all views: a text, a pair, a picture or a table, and the answer that a view shows it for.

import { go, state } from "./address.js";
import { ACTIONS, INVITATIONS } from "./catalog.js";
import { fill, find, make, notice } from "./dom.js";

const MAX_PICTURE = 8_000_000; // bytes
const MAX_HEIGHT = 108; // pixels: four lines, then the box scrolls
let picture = null; // {run, name, data}: a picture is too large for an address
let signature = "";

export const inputOf = (details) => (details.inputs === "picture" ? (picture?.data ?? state.text) : state.text);

export function hasInput(details) {
  return Boolean(inputOf(details).trim());
}

export function drawInput(run, details, view) {
  const form = find("input");
  const takesText = view === null || view.takes_text;
  form.hidden = !takesText;
  if (!takesText) return;
  const takesTarget = Boolean(view?.takes_target) && details.inputs !== "table";
  const current = JSON.stringify([run.id, details.inputs, takesTarget, view === null, details.examples]);
  if (current === signature) return refresh(form);
  signature = current;
  if (picture && picture.run !== run.id) picture = null;
  const label = view === null ? (ACTIONS[run.task] ?? "Answer") : "Show";
  const submit = make("button.main", { type: "submit" }, label);
  const field = details.inputs === "picture" ? pictureField(run) : textField(run, details);
  const target = make("input.target", { type: "text", id: "target", dir: "auto", placeholder: "for this answer (empty: the model's own)", "aria-label": "The answer to show it for" });
  fill(form, make("div.entry", {}, field, submit), takesTarget ? make("div.entry", {}, target) : null, tries(details));
  refresh(form);
}

function refresh(form) {
  const text = form.querySelector("#text");
  const target = form.querySelector("#target");
  if (text && text.value !== shown(state.text)) {
    text.value = shown(state.text);
    grow(text);
  }
  const second = form.querySelector("#second");
  if (second && second.value !== parts(state.text)[1]) second.value = parts(state.text)[1];
  if (target && target.value !== state.target) target.value = state.target;
}

// A pair is one text with a tab between its two, as in a TSV file.
const parts = (text) => {
  const [first, ...rest] = text.split("\t");
  return [first, rest.join("\t")];
};
const shown = (text) => (find("input").querySelector("#second") ? parts(text)[0] : text);

function textField(run, details) {
  const table = details.inputs === "table";
  const text = make("textarea", { id: "text", rows: table ? 5 : 1, dir: "auto", spellcheck: false, placeholder: INVITATIONS[run.task] ?? "A text", "aria-label": "Input" });
  text.addEventListener("input", () => grow(text));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !table && !event.isComposing) {
      event.preventDefault();
      find("input").requestSubmit();
    }
  });
  if (table) acceptFiles(text, text, async (file) => submitText(await file.text()));
  if (details.inputs !== "pair") return text;
  const second = make("input", { type: "text", id: "second", dir: "auto", class: "target", placeholder: "and the second text", "aria-label": "The second text" });
  return make("div", {}, text, make("div.entry", {}, second));
}

function grow(text) {
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, MAX_HEIGHT)}px`;
}

function pictureField(run) {
  const choose = make("input", { type: "file", accept: "image/*", "aria-label": "Choose a picture" });
  const place = make("div.drop", { tabindex: "0" });
  const draw = () => fill(place, picture ? make("img", { src: picture.data, alt: picture.name }) : "Drop a picture here, paste one, or", choose);
  const take = async (file) => {
    if (!file.type.startsWith("image/")) return notice("That is no picture.");
    if (file.size > MAX_PICTURE) return notice("The picture has more than 8 MB.");
    picture = { run: run.id, name: file.name, data: await dataUrl(file) };
    draw();
    go({}, { replace: true });
  };
  acceptFiles(place, choose, take);
  draw();
  return place;
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

function acceptFiles(place, chooser, take) {
  place.addEventListener("dragover", (event) => {
    event.preventDefault();
    place.classList.add("over");
  });
  place.addEventListener("dragleave", () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    place.classList.remove("over");
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  place.addEventListener("paste", (event) => event.clipboardData.files[0] && take(event.clipboardData.files[0]));
  chooser.addEventListener("change", () => chooser.files?.[0] && take(chooser.files[0]));
}

function tries(details) {
  const examples = (details.examples ?? []).filter((example) => typeof example === "string").slice(0, 4);
  if (details.inputs === "picture") return null;
  if (!examples.length) return details.examples_hint ? make("p.faint.small", { dir: "auto" }, details.examples_hint) : null;
  const use = (example) => () => submitText(example);
  const name = (example) => (details.inputs === "table" ? "the run's own data" : example.replace("\t", " / "));
  return make("div.tries", {}, "try", examples.map((example) => make("button.plain", { type: "button", dir: "auto", title: example.slice(0, 300), onclick: use(example) }, name(example))));
}

function submitText(text) {
  go({ text, target: "" });
}

export function startInput() {
  find("input").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = find("input").querySelector("#text")?.value ?? state.text;
    const second = find("input").querySelector("#second")?.value;
    const target = find("input").querySelector("#target");
    const whole = second ? `${text}\t${second}` : text;
    // A new input has a new answer, unless one is given here.
    const changed = target && target.value !== state.target ? target.value : whole === state.text ? state.target : "";
    go({ text: whole, target: changed });
  });
}
