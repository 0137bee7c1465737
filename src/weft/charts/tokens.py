"""Tokens as the labels of an axis: upright, in their order, also where a token occurs several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from weft.console import visible

if TYPE_CHECKING:
    import altair

Orient = Literal["top", "bottom", "left", "right"]

DIGITS: Final = 5
"""Digits of the place of a token in its key."""

PIXELS_PER_CHARACTER: Final = 7.5
MIN_STEP_PIXELS, MAX_STEP_PIXELS = 22, 90
"""The width of a column with a token above it; a longer token is cut, and its tooltip has it whole."""

BLANKS: Final = {" ": "␣", "\n": "⏎", "\t": "⇥", "\u00a0": "␣"}
"""How white space is shown."""


def readable(token: str) -> str:
    """Return a token as a label: white space and control characters are visible."""
    if not token.strip():
        return "".join(BLANKS.get(letter) or visible(letter) for letter in token) or "∅"
    return visible(token).replace("\n", "⏎")


def token_keys(tokens: Sequence[str]) -> list[str]:
    """Return a different text for each token, whose order is that of the tokens; `token_axis` shows the token alone."""
    return [f"{place:0{DIGITS}}{readable(token)}" for place, token in enumerate(tokens)]


def token_axis(*, title: str | None = None, orient: Orient = "bottom") -> altair.Axis:
    """Return an axis over `token_keys` with upright labels."""
    import altair

    return altair.Axis(
        title=title,
        orient=orient,
        labelExpr=f"slice(datum.value, {DIGITS})",
        labelAngle=0,
        labelLimit=MAX_STEP_PIXELS + 60 if orient in ("left", "right") else MAX_STEP_PIXELS - 4,
        labelOverlap=False,
        ticks=False,
        domain=False,
        grid=False,
    )


POWER_LABEL: Final = "datum.value >= 1e-3 && datum.value < 1e4 ? format(datum.value, '~g') : format(datum.value, '.0e')"
"""The label of a logarithmic axis: 1e-9, 0.01, 1, 100."""


def token_step(tokens: Sequence[str]) -> float:
    """Return the width in pixels of a column of an axis with these tokens."""
    longest = max((len(readable(token)) for token in tokens), default=1)
    return float(min(MAX_STEP_PIXELS, max(MIN_STEP_PIXELS, longest * PIXELS_PER_CHARACTER + 6)))
