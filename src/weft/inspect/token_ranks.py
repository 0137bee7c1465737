"""The view `ranks`: which words surprised it? Each token of a text with its probability, its rank and the likeliest
candidates at its place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from rich.text import Text

from weft.charts import Table, readable
from weft.data import Pair
from weft.errors import ConfigError
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.run import Run
from weft.tasks.scoring import Scored

CLASSES: Final = ((1, "top 1"), (10, "2–10"), (100, "11–100"), (math.inf, "over 100"))
"""The classes of ranks, each with its last rank."""

CANDIDATES: Final = 10
WIDTH_PIXELS: Final = 860
MIN_WIDTH_PIXELS: Final = 160
BY_RANK, BY_PROBABILITY = "rank", "probability"


class RankedToken(NamedTuple):
    """A token of the text; rank 1 is the likeliest token at its place."""

    token: str
    log_probability: float
    rank: int
    candidates: tuple[tuple[str, float], ...]
    """The likeliest tokens at this place with their log-probabilities."""

    @property
    def probability(self) -> float:
        """p(token | the tokens before it, the source)."""
        return math.exp(self.log_probability)

    @property
    def rank_class(self) -> str:
        """The class of its rank."""
        return next(name for last, name in CLASSES if self.rank <= last)


@dataclass(frozen=True)
class TokenRanks(View):
    """The tokens of a text with their probabilities and ranks."""

    source: str | None
    text: str
    given: bool
    """Whether the user gave the text, and not the model."""
    masked: bool
    """Whether each token is scored given all others, and not only those before it."""
    words: bool
    """Whether tokens are whole words, with blanks between them."""
    colour: str
    width: int
    """Pixels of a line of tokens in the chart."""
    tokens: tuple[RankedToken, ...]

    name: ClassVar[str] = "ranks"
    equation: ClassVar[str] = (
        "p_t = p(y_t | y_1 … y_{t-1}, x)                a masked model: p(y_t | all other tokens)\n"
        "rank_t = 1 + the number of tokens v with p(v | y_1 … y_{t-1}, x) > p_t"
    )

    @property
    def title(self) -> str:
        about = f"{readable(self.source)} → " if self.source is not None else ""
        return f"Ranks of tokens: {about}{readable(self.text)}"

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{rank} for {count or 'none'}" for rank, count in self.counts().items())
        whose = "" if self.given or self.source is None else " The text is the model's own answer."
        how = "given all the others" if self.masked else "given those before it"
        return (
            f"Each token is coloured by its {self.colour} {how}. Ranks of the {len(self.tokens)} tokens: {counts}. "
            f"A text that is mostly top 1 is one that the model could have written.{whose}"
        )

    def counts(self) -> dict[str, int]:
        """Return the number of tokens of each class of ranks."""
        return {name: sum(one.rank_class == name for one in self.tokens) for _, name in CLASSES}

    def to_dict(self) -> dict[str, Any]:
        tokens = [
            {
                "token": one.token,
                "probability": one.probability,
                "log_probability": _finite(one.log_probability),
                "rank": one.rank,
                "candidates": [
                    {"token": token, "probability": math.exp(log), "log_probability": _finite(log)}
                    for token, log in one.candidates
                ],
            }
            for one in self.tokens
        ]
        total = math.fsum(one.log_probability for one in self.tokens)
        return {
            "view": self.name,
            "source": self.source,
            "text": self.text,
            "given": self.given,
            "masked": self.masked,
            "log_probability": _finite(total),
            "counts": self.counts(),
            "tokens": tokens,
        }

    def chart(self) -> Any:
        from weft.inspect.rank_chart import draw_ranks

        return draw_ranks(self)

    def table(self) -> Table:
        rows = [
            (
                readable(one.token),
                one.probability,
                one.rank,
                ", ".join(f"{readable(token)} {math.exp(log):.2g}" for token, log in one.candidates[:5]),
            )
            for one in self.tokens
        ]
        return Table(("token", "probability", "rank", "likeliest"), rows)

    def lines(self, width: int) -> list[Text]:
        from weft.inspect.rank_lines import rank_lines

        return rank_lines(self, width)


def ranks(
    run: Run,
    text: Any,
    *,
    target: str | None = None,
    candidates: int = CANDIDATES,
    colour: str = BY_RANK,
    width: int = WIDTH_PIXELS,
) -> View:
    """Return each token of a text with its probability, rank and likeliest candidates, as `TokenRanks`.

    A language model scores the text; a masked one hides each token in turn. A translator or captioner scores `target`,
    or its own answer. The numbers are those of `weft score`. `colour` is "rank" or "probability", and `width`
    the pixels of a line of tokens in the chart.
    """
    if not run.task.scores_texts or run.task.label_column is not None:
        return Nothing("ranks", f"{run.config.task} gives no probability to the tokens of a text")
    if candidates < 0:
        raise ConfigError("is negative", where=f"candidates = {candidates}", cure="0 shows none")
    if colour not in (BY_RANK, BY_PROBABILITY):
        raise ConfigError("is no colour", where=f"colour = {colour!r}", cure=f"{BY_RANK} or {BY_PROBABILITY}")
    if width < MIN_WIDTH_PIXELS:
        raise ConfigError("is too narrow", where=f"width = {width}", cure=f"from {MIN_WIDTH_PIXELS}")
    record = run.record(text)
    if isinstance(record, Pair):
        answer = target if target is not None else run.predict(record)
        record = run.task.answered(record, answer)
    elif target is not None:
        raise ConfigError(f"{run.config.task} scores the text itself", where="target", cure="leave it out")
    (found,) = run.score([record], candidates=candidates)
    assert isinstance(found, Scored)
    if not found.tokens:
        return Nothing("ranks", "the text has no tokens")
    places = found.candidates or [()] * len(found.tokens)
    rows = zip(found.pieces, found.log_probabilities, found.ranks, places, strict=True)
    return TokenRanks(
        found.source,
        found.text,
        target is not None or found.source is None,
        not run.task.writes,
        run.task.codec.side("target").kind == "word",
        colour,
        width,
        tuple(RankedToken(*row) for row in rows),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


KIND = ViewKind(
    name="ranks",
    question="Which words surprised it?",
    function=ranks,
    takes_target=True,
    options={
        "colour": Option("choice", BY_RANK, "colour by", choices=(BY_RANK, BY_PROBABILITY)),
        "candidates": Option("int", CANDIDATES, "likeliest candidates of each token", 0, 100),
        "width": Option("int", WIDTH_PIXELS, "pixels of a line of tokens", MIN_WIDTH_PIXELS, 4000),
    },
)
