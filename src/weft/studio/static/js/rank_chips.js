// The text of the view Tokens as chips, coloured by rank; a chip under the pointer shows the likeliest tokens.

import { make, percent, show, table } from "./dom.js";
import { spaced } from "./tokens.js";

export function rankChips({ found, place, showPointer }) {
  const tokens = found.data?.tokens;
  if (!Array.isArray(tokens) || !tokens.length || typeof tokens[0] !== "object") return;
  place.append(make("div.tokens", {}, tokens.slice(0, 3000).map((token) => chipOf(token, showPointer))));
}

function chipOf(token, showPointer) {
  const name = token.token ?? token.piece ?? "";
  const point = () =>
    showPointer(
      make("p.tokenname", { dir: "auto" }, spaced(name)),
      make("dl", {}, [["rank", token.rank], ["probability", token.probability === undefined ? null : percent(token.probability)]].flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, show(value))])),
      ...(token.top ? table(["token", "probability"], token.top.map((entry) => (Array.isArray(entry) ? entry : Object.values(entry))), { tokens: true }).filter(Boolean) : []),
    );
  return make("span.chip", { dir: "auto", tabindex: "0", onpointerenter: point, onfocus: point }, spaced(name));
}
