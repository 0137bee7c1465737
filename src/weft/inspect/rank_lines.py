"""Ranks of tokens for a terminal: the text itself with coloured tokens, a legend, and the least likely tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from weft.charts import readable
from weft.inspect.chips import BLANK, split_blanks
from weft.inspect.terminal import RAMP, colour

if TYPE_CHECKING:
    from weft.inspect.token_ranks import RankedToken, TokenRanks

STYLES: Final = {
    "top 1": "",
    "2–10": "#14161a on #9fd3f2",
    "11–100": "#14161a on #e69f00",
    "over 100": "bold #14161a on #e8743b",
}
"""The style of each class: the likeliest tokens are plain, so that the others stand out."""

BAR_CELLS: Final = 30
MAX_SURPRISES: Final = 8


def rank_lines(view: TokenRanks, width: int) -> list[Text]:
    """Return the coloured text, the legend with a histogram, and the least likely tokens."""
    lines = [] if view.source is None else [Text(readable(view.source), style="dim"), Text()]
    lines += [*_text_lines(view, width), Text(), *_legend(view), Text(), *_surprises(view, width)]
    return lines


def token_style(view: TokenRanks, one: RankedToken) -> str:
    """Return the style of a token."""
    if view.colour == "rank":
        return STYLES[one.rank_class]
    front = "#f5f5f5" if one.probability < 0.5 else "#14161a"
    return f"{front} on {colour(one.probability)}"


def _text_lines(view: TokenRanks, width: int) -> list[Text]:
    """Return the text, wrapped between tokens."""
    lines, line = list[Text](), Text()
    for number, one in enumerate(view.tokens):
        blanks, word = split_blanks(one.token)
        space = " " * (len(blanks) or int(view.words and number > 0))
        if cell_len(line.plain) + len(space) + cell_len(word) > width and line.plain:
            lines.append(line)
            line = Text()
        elif line.plain:
            line.append(space)
        style = token_style(view, one)
        line.append(word, style=f"{style} dim".strip() if set(word) == {BLANK} and not style else style)
        if word.endswith("⏎"):
            lines.append(line)
            line = Text()
    return [*lines, line] if line.plain else lines


def _legend(view: TokenRanks) -> list[Text]:
    """Return a bar for each class of ranks; by probability, the ramp of its colours."""
    lines = list[Text]()
    for name, count in view.counts().items():
        share = count / len(view.tokens)
        line = Text().append(f" {name:^10} ", style=STYLES[name] if view.colour == "rank" else "")
        bar = "█" * round(BAR_CELLS * share) or "▏" * bool(count)
        lines.append(line.append(f" {bar}", style="dim").append(f" {count:,} ({100 * share:.0f}%)"))
    if view.colour == "probability":
        ramp = Text("probability 0 ")
        for shade in RAMP:
            ramp.append("   ", style=f"on {shade}")
        lines.append(ramp.append(" 1"))
    return lines


def _surprises(view: TokenRanks, width: int) -> list[Text]:
    """Return the least likely tokens that were not the likeliest at their place, and what was likelier."""
    found = sorted((one for one in view.tokens if one.rank > 1), key=lambda one: one.log_probability)
    if not found:
        return [Text("Every token is the likeliest at its place.", style="dim")]
    shown = found[:MAX_SURPRISES]
    column = max(cell_len(split_blanks(one.token)[1]) for one in shown)
    lines = [Text(f"{'rank':>8}  {'p':>8}  {'token':{column}}  likelier", style="dim")]
    for one in shown:
        word = split_blanks(one.token)[1]
        line = Text(f"{one.rank:>8,}  {one.probability:>8.2g}  ").append(word, style=token_style(view, one))
        line.append(" " * (column - cell_len(word) + 2))
        likelier = [(token, log) for token, log in one.candidates if log > one.log_probability]
        for place, (token, log) in enumerate(likelier):
            part = f"{', ' if place else ''}{split_blanks(token)[1]} {math.exp(log):.2f}"
            if cell_len(line.plain) + cell_len(part) > width:
                break
            line.append(part, style="dim")
        lines.append(line)
    return lines
