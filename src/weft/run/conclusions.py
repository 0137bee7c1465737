"""What a person should know of the scores in a report, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.metrics import wilson
from weft.training.progress import metric_name, show_metric

BASELINES = {
    "majority": "always the most frequent label",
    "linear": "a linear model on n-grams",
    "per_word": "each word's most frequent tag",
}
"""What simple models are called where people read."""


def conclusions(report: Mapping[str, Any]) -> Iterator[str]:
    """What a person should know of the scores: simple models beside them, and whether one does as well."""
    part = "test" if "test" in report else "valid"
    baselines = report.get("baselines", {}).get(part, {})
    for name, scores in baselines.items():
        shown = (
            f"{metric_name(metric)} {show_metric(metric, scores[metric])}"
            for metric in report[part]
            if metric in scores
        )
        yield f"{BASELINES.get(name, name)}: {', '.join(shown)}"
    if baselines:
        yield from _verdict(report, part)
    if "calibration" in report:
        yield _describe_calibration(report["calibration"], part)


def _verdict(report: Mapping[str, Any], part: str) -> Iterator[str]:
    """A sentence where the best of the simple models is better than the network, or as good as can be told.

    Where tags mark spans, spans are compared.
    """
    metric = "span_f1" if "span_f1" in report[part] else "accuracy"
    simple = {name: scores[metric] for name, scores in report["baselines"][part].items() if metric in scores}
    if metric not in report[part] or not simple:  # a task may have other scores
        return
    ours, details = report[part][metric], report["details"][part]
    name, best = max(simple.items(), key=lambda item: item[1])
    near = _near(ours, best, details["count"]) if metric in details["intervals"] else False
    named = BASELINES.get(name, name)
    what = named[0].upper() + named[1:]
    shown = f"{metric_name(metric)} {100 * best:.1f}% against {100 * ours:.1f}% on {part}"
    noise = f" (within the noise of {details['count']:,} {details['count_of']})" if near else ""
    if best > ours:
        yield f"{what} is better here: {shown}{noise}"
    elif noise:
        yield f"{what} does as well here: {shown}{noise}"


def _near(ours: float, theirs: float, count: int) -> bool:
    """Whether one share of `count` lies in the interval of the other."""
    pairs = ((ours, theirs), (theirs, ours))
    intervals = [(wilson(round(share * count), count), other) for share, other in pairs]
    return any(interval.low <= other <= interval.high for interval, other in intervals)


def _describe_calibration(found: Mapping[str, Any], part: str) -> str:
    if found["temperature"] == 1.0:
        return f"probabilities are not calibrated: {found['examples']} validation examples are too few"
    errors = found[part]
    return (
        f"probabilities calibrated: temperature {found['temperature']:.2f} from {found['examples']:,} validation "
        f"examples; calibration error on {part} {100 * errors['before']:.1f}% → {100 * errors['after']:.1f}%; "
        "the loss is after it"
    )
