// Tokens as chips: the mark of a word's beginning and white space are faint, and each token has its own direction.

import { make } from "./dom.js";

// Vocabularies of bytes spell each byte as one letter (GPT-2): 33–126, 161–172 and 174–255 as themselves, the others from 256 on.
const BYTES = new Map();
for (let byte = 0, other = 256; byte < 256; byte += 1) {
  const plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  BYTES.set(String.fromCodePoint(plain ? byte : other++), byte);
}
const decoder = new TextDecoder("utf-8", { fatal: true });

// Entries of a vocabulary as people read them: bytes become letters again, half a letter its bytes in hexadecimal.
export function readable(tokens) {
  const inBytes = tokens.some((token) => /[ĠĊ]/.test(token)) && tokens.every((token) => [...token].every((letter) => BYTES.has(letter)));
  return inBytes ? tokens.map(decode) : tokens;
}

function decode(token) {
  const bytes = Uint8Array.from([...token], (letter) => BYTES.get(letter));
  try {
    return decoder.decode(bytes);
  } catch {
    return [...bytes].map((byte) => (byte >= 32 && byte < 127 ? String.fromCodePoint(byte) : `⟨${byte.toString(16).toUpperCase()}⟩`)).join("");
  }
}

const BLANKS = { " ": "▁", "\n": "⏎", "\t": "⇥", "\u00a0": "␣", "▁": "▁", "Ġ": "▁", "Ċ": "⏎" };

export function spaced(token) {
  if (token === "") return [make("span.blank", {}, "∅")];
  return [...token.matchAll(/[ \n\t\u00a0▁ĠĊ]+|[^ \n\t\u00a0▁ĠĊ]+/g)].map(([part]) =>
    part[0] in BLANKS ? make("span.blank.faint", {}, [...part].map((letter) => BLANKS[letter]).join("")) : part,
  );
}

// A chip; `share` from 0 to 1 underlines it, from faint to the accent.
export function chip(token, { share = null, below = null, onpoint = null, colour = null } = {}) {
  const strength = share === null ? null : Math.round(100 * Math.max(0.08, share));
  const line = colour ?? (strength === null ? null : `color-mix(in srgb, var(--accent) ${strength}%, transparent)`);
  const point = onpoint ? { onpointerenter: onpoint, onfocus: onpoint, tabindex: "0" } : {};
  return make("span.chip", { dir: "auto", style: line ? { "border-bottom-color": line } : {}, ...point }, spaced(token), below === null ? null : make("small", {}, below));
}
