"""The alignment of a text: a row for each token that was written, a column for each token or position of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weft.errors import ConfigError
from weft.run import Run
from weft.tasks import Generation
from weft.text import EOS, SPECIALS

SHADES: Final = " ·░▒▓█"
"""Characters for attention weights from 0 to 1, in equal steps."""


@dataclass(frozen=True)
class Alignment:
    """Attention weights (T, S) of a text; the last row is that of its end, if the model ended it."""

    text: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    grid: tuple[int, int] | None = None
    """Rows and columns of the positions, where the source is a picture."""

    def lines(self) -> list[str]:
        """The weights as shades, under the tokens of the source written downwards; of a picture a square of shades for
        each token, from none to the largest weight of that token."""
        if self.grid is not None:
            return self._squares(*self.grid)
        left, height = max(map(len, self.target), default=0), max(map(len, self.source), default=0)
        tall = [token.rjust(height) for token in self.source]
        head = [f"{'':{left}}  " + " ".join(token[row] for token in tall) for row in range(height)]
        body = [
            f"{token:>{left}}  " + " ".join(_shade(weight) for weight in row)
            for token, row in zip(self.target, self.weights, strict=True)
        ]
        return [line.rstrip() for line in (*head, *body)]

    def _squares(self, height: int, width: int) -> list[str]:
        left, found = max(map(len, self.target), default=0), list[str]()
        for token, row in zip(self.target, self.weights, strict=True):
            shades = [_shade(weight / max(max(row), 1e-9)) * 2 for weight in row]
            squares = ("".join(shades[place : place + width]) for place in range(0, height * width, width))
            found += [f"{token if not number else '':>{left}}  {square}" for number, square in enumerate(squares)]
        return [line.rstrip() for line in found]

    def tree(self) -> dict[str, Any]:
        """As plain values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}


def align(run: Run, source: Any, **options: Any) -> Alignment:
    """Translate a text, or write the caption of a picture; options are those of `Run.predict`, such as beam."""
    answer = run.predict(source, attention=True, **options)
    assert isinstance(answer, Generation)
    if not answer.candidates:
        raise ConfigError("no text was found", where="alignment", cure="allow more: forbid, require, max_length")
    best = answer.candidates[0]
    assert best.attention is not None
    assert answer.source_tokens is not None
    target = (*best.tokens, SPECIALS[EOS])[: best.attention.size(0)]
    return Alignment(
        best.text,
        answer.source_tokens,
        target,
        tuple(tuple(row) for row in best.attention.tolist()),
        run.task.source_grid(run.model),
    )


def _shade(weight: float) -> str:
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]
