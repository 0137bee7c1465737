"""The table of a ladder: scores with bootstrap intervals, the best rung, and the cheapest that is as good.

The same examples are drawn for every rung, so that differences to the best are paired (`compare/bootstrap.py`). The
cheapest rung is the one that trained for the fewest seconds among those whose difference to the best may be chance: its
95% interval contains zero. There is none where the examples cannot say: they are too few to draw from, or they cannot
tell the models from a rung that is no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.compare import Tally, draw_scores, drawn_units, interval
from weft.compare.bootstrap import MIN_RECORDS
from weft.errors import ConfigError
from weft.ladder.rungs import lower_is_better
from weft.tasks import Tree


@dataclass(frozen=True)
class MeasuredRung:
    """One rung: its score with the bounds of 95% of the draws, how much worse than the best it may be (the bound of 95%
    of the differences), parameters, seconds of training, bytes on the disk, and examples predicted per second; for a
    language model, characters scored per second. `trained` is False for a rung that is no model."""

    name: str
    score: float
    low: float
    high: float
    behind: float
    parameters: int
    seconds: float
    bytes: int
    speed: float
    trained: bool = True

    def tree(self) -> Tree:
        """As plain values; what is infinite is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Summary:
    """All rungs that were measured, the number of examples, the name of the best rung, and of the cheapest that is not
    significantly worse; None where the examples cannot say which that is."""

    task: str
    metric: str
    measured_on: str
    examples: int
    rungs: list[MeasuredRung]
    best: str
    cheapest: str | None
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def speed_unit(self) -> str:
        return {"lm": "characters/s", "forecast": "forecasts/s"}.get(self.task, "texts/s")

    def tree(self) -> Tree:
        """As plain values, for ladder.json."""
        return {
            "task": self.task,
            "metric": self.metric,
            "lower_is_better": lower_is_better(self.task, self.metric),
            "measured_on": self.measured_on,
            "examples": self.examples,
            "speed_unit": self.speed_unit,
            "rungs": [rung.tree() for rung in self.rungs],
            "best": self.best,
            "cheapest": self.cheapest,
            "failed": self.failed,
            "notes": self.notes,
        }


class ScoredRung(NamedTuple):
    """The sums of a rung's examples and what it cost; `trained` is False for one that is no model."""

    name: str
    tally: Tally
    parameters: int
    seconds: float
    bytes: int
    speed: float
    trained: bool = True


def build_summary(
    found: Sequence[ScoredRung], task: str, metric: str, part: str, notes: list[str], failed: dict[str, str]
) -> Summary:
    """Draw examples for all rungs, and choose the best and the cheapest."""
    sign = -1.0 if lower_is_better(task, metric) else 1.0
    scores = [one.tally.metrics()[metric] for one in found]
    finite = [number for number, score in enumerate(scores) if math.isfinite(score)]
    if not finite:
        raise ConfigError(f"no rung has a finite {metric}", where="weft ladder", cure="choose another with --metric")
    best = max(finite, key=lambda number: (sign * scores[number], -found[number].seconds))
    tallies = [found[number].tally for number in finite]
    drawn = {
        number: [one.get(metric, 0.0) for one in draws]
        for number, draws in zip(finite, draw_scores(tallies), strict=True)
    }
    rungs, equal = list[MeasuredRung](), list[ScoredRung]()
    for number, one in enumerate(found):
        low = high = behind = math.nan
        if number in drawn:
            _, low, high = interval(scores[number], drawn[number])
            pairs = zip(drawn[best], drawn[number], strict=True)
            gap = interval(sign * (scores[best] - scores[number]), [sign * (top - mine) for top, mine in pairs])
            behind = max(0.0, gap.high)
            if number == best or not gap.low > 0:
                equal.append(one)
        costs = (one.parameters, one.seconds, one.bytes, one.speed)
        rungs.append(MeasuredRung(one.name, scores[number], low, high, behind, *costs, one.trained))
    examples = len(drawn_units(tallies)[0].numbers)
    return Summary(task, metric, part, examples, rungs, found[best].name, _cheapest(equal, examples), failed, notes)


def _cheapest(equal: Sequence[ScoredRung], examples: int) -> str | None:
    """The rung with the shortest training of those that may be as good as the best; None where the examples do not
    say."""
    too_few = examples < MIN_RECORDS
    learned_nothing = any(not rung.trained for rung in equal)
    if len(equal) > 1 and (too_few or learned_nothing):
        return None
    return min(equal, key=lambda rung: rung.seconds).name
