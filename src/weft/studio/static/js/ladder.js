// A ladder: models of rising strength on the same data, in one table with one picture.

import { go, state } from "./address.js";
import { failure, fill, isAbort, make, table } from "./dom.js";
import { waiting } from "./figure_view.js";
import { Picture } from "./picture.js";
import { allLadders } from "./runs.js";
import { get } from "./server.js";

export function mountLadder(place) {
  const picture = new Picture();
  const status = make("div", { "aria-live": "polite" });
  const choose = make("div.controls");
  const content = make("div");
  let aborter = new AbortController();
  fill(place, make("h2.question", {}, "How much does a stronger model gain?"), choose, status, content);
  const update = async () => {
    aborter.abort();
    aborter = new AbortController();
    const ladders = allLadders();
    if (!ladders.length) {
      fill(content);
      fill(status, make("p.empty", {}, "This folder has no ladder. weft ladder trains models of rising strength on the same data."));
      return;
    }
    const id = ladders.some((one) => one.id === state.ladder) ? state.ladder : ladders[0].id;
    const list = make("select", { onchange: () => go({ ladder: list.value }) }, ladders.map((one) => make("option", { value: one.id, selected: one.id === id }, one.name ?? one.id)));
    fill(choose, make("label", {}, "ladder", list));
    fill(status, waiting("Reading the ladder …", () => aborter.abort()));
    try {
      const found = await get(`/api/ladders/${id.split("/").map(encodeURIComponent).join("/")}`, { signal: aborter.signal });
      fill(content, found.conclusion ? make("p.summary", {}, found.conclusion) : null, picture.place, found.specification ? picture.tools("ladder", () => found) : null, ...table(found.headings, found.rows).filter(Boolean));
      picture.place.hidden = !found.specification;
      if (found.specification) await picture.draw(found.specification, { label: found.conclusion });
      fill(status);
    } catch (error) {
      fill(status, isAbort(error) ? make("p.empty", {}, "Stopped.") : failure(error));
    }
  };
  update();
  return { update, dispose: () => (aborter.abort(), picture.dispose()) };
}
