// Keys: / the input, g and a letter for a view, arrows for the slider of the view, ? this list.

import { go, state } from "./address.js";
import { KEYS, labelOf } from "./catalog.js";
import { fill, find, make } from "./dom.js";

let afterG = -Infinity; // a page is younger than any wait

export function startKeys() {
  find("skip").addEventListener("click", () => find("view").focus());
  find("help-button").addEventListener("click", showHelp);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    press(event);
  });
}

function press(event) {
  const pressed = event.key;
  if (performance.now() - afterG < 1500 && pressed in KEYS) {
    afterG = -Infinity;
    event.preventDefault();
    if (KEYS[pressed] !== state.view) go({ view: KEYS[pressed] });
  } else if (pressed === "g") afterG = performance.now();
  else if (pressed === "/") {
    event.preventDefault();
    const text = document.querySelector("#text, #input .drop");
    text?.focus();
    text?.select?.();
  } else if (pressed === "?") showHelp();
  else if (pressed === "ArrowLeft" || pressed === "ArrowRight") moveSlider(event, pressed === "ArrowRight" ? 1 : -1);
}

// The slider inside the chart comes first: it steps through time.
function moveSlider(event, by) {
  const slider = document.querySelector(".chart input[type=range]") ?? document.querySelector(".controls input[type=range]");
  if (!slider) return;
  event.preventDefault();
  if (by > 0) slider.stepUp();
  else slider.stepDown();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  slider.dispatchEvent(new Event("change", { bubbles: true }));
}

function showHelp() {
  const help = find("help");
  const line = (key, text) => [make("dt", {}, [key].flat().map((one) => [make("kbd", {}, one), " "]).flat()), make("dd", {}, text)];
  fill(
    help,
    make("h2", {}, "Keys"),
    make("dl", {}, line("/", "the input"), line("Enter", "answer, or show the view"), line(["←", "→"], "steps of the beam and of time"), line("?", "this list")),
    make("h3", {}, "g, then a letter"),
    make("dl.keys", {}, Object.entries(KEYS).map(([key, view]) => make("div", {}, make("kbd", {}, "g"), " ", make("kbd", {}, key), ` ${labelOf(view)}`))),
    make("p.faint.small", {}, "The address of the page holds the run, the view, the input and all options: send it, or reload, and the same picture appears."),
    make("form", { method: "dialog" }, make("button", {}, "close")),
  );
  if (!help.open) help.showModal();
}
