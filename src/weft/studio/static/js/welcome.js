// The page without a run: what to do next.

import { link } from "./address.js";
import { ACROSS, labelOf } from "./catalog.js";
import { fill, find, make } from "./dom.js";

const COMMANDS = `weft data make phrasebook
weft train translate data/phrasebook/translate/train.tsv \\
    data/phrasebook/translate/valid.tsv data/phrasebook/translate/test.tsv
weft studio runs`;

export function welcome(place, { missing, runs }) {
  const lesson = (view) => make("li", {}, make("a", { href: link({ view }) }, labelOf(view)), ` – ${ACROSS[view]}`);
  fill(
    place,
    missing ? make("div.failure", { role: "alert" }, make("p", {}, `There is no run "${missing}" in this folder.`), runs ? make("p.cure", {}, "Choose one of the runs on the left.") : null) : null,
    make("h1", {}, runs ? "Choose a run" : "No runs yet"),
    make("p.summary", {}, runs ? "The studio shows what a model answers, and what happens inside it." : "This folder has no run. Train a small translator in a few minutes:"),
    runs ? null : make("pre", {}, COMMANDS),
    make("p", {}, "Without a run you can begin here:"),
    make("ul", {}, lesson("learn"), lesson("fresh")),
  );
  find("details").replaceChildren();
}
