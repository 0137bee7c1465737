"""Compares an exported folder with its run: the answers of both to inputs made from the vocabulary.

Numbers may differ by 1e-4. Texts, labels and tags may differ only where both have the same score or probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.export.agreement import LOGIT_TOLERANCE, SEARCH_TOLERANCE, differs
from weft.export.onnx.runner import Runner
from weft.export.onnx.samples import sample_inputs, sample_pairs
from weft.run import Run

MAX_TOKENS: Final = 24
"""Tokens of a text that is searched for the comparison."""

CHOSEN: Final = ("label", "labels", "tags", "filled", "text", "tokens", "path", "entry", "token", "word", "others")
"""Parts of an answer that a tie may decide either way; their scores and probabilities are compared."""


def compare(run: Run, folder: Path) -> tuple[float, float | None, float | None]:
    """The largest difference of a number, and the shares of equal texts by greedy and by beam search. A Fault says
    where the folder is not the same model."""
    runner, inputs = Runner(folder, threads=1), sample_inputs(run)
    if not run.task.writes:
        ours = [one.record() for one in run.predict(inputs)]
        theirs = runner.predict(inputs)
        return _largest(ours, theirs, "an answer"), None, None
    difference = 0.0
    pairs = sample_pairs(run, inputs)
    if pairs:
        ours = [one.record() for one in run.score(pairs)]
        difference = _largest(ours, runner.score(pairs), "a score", skip=("log_probability", "ranks"))
    shares = []
    longest = max(1, min(MAX_TOKENS, run.config.decode.max_length))
    for beam in (1, 4):
        options: dict[str, Any] = {"beam": beam, "max_length": longest, "min_length": 0, "groups": 1, "stop_at": []}
        options |= {"n_best": 1, "stop": "bound", "sample": False}
        options |= _language(run)
        mine = [one.record() for one in run.predict(inputs, **options)]
        other = runner.predict(inputs, **{key: options[key] for key in options if key not in ("groups", "stop_at")})
        shares.append(_equal_texts(mine, other, run.config.decode.length_penalty))
    return difference, shares[0], shares[1]


def _language(run: Run) -> dict[str, Any]:
    languages = getattr(run.task, "languages", None)
    return {"language": languages.names[0]} if languages else {}


def _equal_texts(ours: Sequence[Any], theirs: Sequence[Any], penalty: float) -> float:
    """The share of equal texts; another text must have the same score."""
    equal = 0
    for own, other in zip(ours, theirs, strict=True):
        same = own["text"] == other["text"]
        equal += same
        if abs(own.get("score", 0.0) - other.get("score", 0.0)) > SEARCH_TOLERANCE:
            raise differs(
                f"the text for {own['source']!r:.40}, {own['text']!r:.60} here and {other['text']!r:.60} there"
            )
    return equal / max(1, len(ours))


def _largest(ours: Any, theirs: Any, what: str, skip: Sequence[str] = ()) -> float:
    """The largest difference of two numbers at the same place of two answers."""
    worst = 0.0
    for place, own, other in _pairs(ours, theirs, ""):
        name = place.rpartition(".")[2]
        if name in skip:
            continue
        if isinstance(own, int | float) and isinstance(other, int | float):
            if math.isinf(own) and own == other:
                continue
            difference = abs(own - other)
            if not difference <= LOGIT_TOLERANCE * max(1.0, abs(own) / 10):
                raise differs(f"a number of {what} by {difference:.2g} ({place.lstrip('.')})")
            worst = max(worst, difference)
        elif own != other and not any(part in CHOSEN for part in place.split(".")):
            raise differs(f"{what}: {own!r:.40} here and {other!r:.40} there ({place.lstrip('.')})")
    return worst


def _pairs(own: Any, other: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """The values at the same places of two answers."""
    if isinstance(own, Mapping) and isinstance(other, Mapping):
        if own.keys() != other.keys():
            raise differs(f"the parts of an answer, {sorted(own)} here and {sorted(other)} there")
        for name in own:
            yield from _pairs(own[name], other[name], f"{place}.{name}")
    elif isinstance(own, list | tuple) and isinstance(other, list | tuple):
        if len(own) != len(other) and not any(part in CHOSEN for part in place.split(".")):
            raise differs(f"the number of values of {place.lstrip('.')}, {len(own)} here and {len(other)} there")
        for one, two in zip(own, other, strict=False):
            yield from _pairs(one, two, place)
    else:
        yield place, own, other
