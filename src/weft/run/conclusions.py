"""The sentences that summarise a report: simple models beside it, its calibration, its thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.metric_text import PERCENT, metric_name, show_metric
from weft.metrics import wilson
from weft.metrics.calibration import MIN_EXAMPLES as MIN_CALIBRATED
from weft.metrics.thresholds import MIN_EXAMPLES, MIN_SUPPORT

BASELINES = {
    "majority": "always the most frequent label",
    "bag": "a bag of n-grams",
    "per_word": "each word's most frequent tag",
    "frequent": "always the most frequent labels, as many as usual",
    "mean": "always the mean of the training data",
    "median": "always the median of the training data",
    "naive": "the last value repeated",
    "seasonal_naive": "the last season repeated",
    "drift": "the line from the first to the last value continued",
}
"""The names of simple models in messages."""


COMPARED = ("span_f1", "accuracy", "micro_f1", "mase", "mae")
"""The score by which a model is compared with simple ones: the first of these that it has."""

LOWER_IS_BETTER = ("mae", "mase")

SHOWN_THRESHOLDS = 10
"""Labels whose thresholds are named in a sentence."""


def conclusions(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the scores: those of simple models, whether one of them is as good, and the calibration."""
    part = "test" if "test" in report else "valid"
    baselines = report.get("baselines", {}).get(part, {})
    for name, scores in baselines.items():
        yield describe_baseline(name, {metric: scores[metric] for metric in report[part] if metric in scores})
    if baselines:
        yield from _compare_baselines(report, part)
    if "temperature" in report.get("calibration", {}):
        yield _describe_calibration(report["calibration"], part)
        if "thresholds" in report["calibration"]:
            yield _describe_thresholds(report["calibration"])
    if "intervals" in report.get("calibration", {}):
        yield str(report["calibration"]["intervals"])


def describe_baseline(name: str, scores: Mapping[str, Any]) -> str:
    """A simple model and its scores in a line."""
    listed = (f"{metric_name(metric)} {show_metric(metric, value)}" for metric, value in scores.items())
    return f"{BASELINES.get(name, name)}: {', '.join(listed)}"


def _compare_baselines(report: Mapping[str, Any], part: str) -> Iterator[str]:
    """Yield a sentence where the best simple model is better than the network, or as good within the noise.

    Where tags mark spans, scores of spans are compared.
    """
    metric = next((name for name in COMPARED if name in report[part]), "accuracy")
    simple = {name: scores[metric] for name, scores in report["baselines"][part].items() if metric in scores}
    if metric not in report[part] or not simple:  # a task may have other scores
        return
    ours, details = report[part][metric], report["details"][part]
    sign = -1 if metric in LOWER_IS_BETTER else 1
    name, best = max(simple.items(), key=lambda item: sign * item[1])
    near = _near(ours, best, details["count"]) if metric in details.get("intervals", ()) else False
    named = BASELINES.get(name, name)
    what = named[0].upper() + named[1:]
    if metric in PERCENT:
        both = f"{metric_name(metric)} {100 * best:.1f}% against {100 * ours:.1f}% on {part}"
    else:
        both = f"{metric_name(metric)} {show_metric(metric, best)} against {show_metric(metric, ours)} on {part}"
    if near:
        yield f"{what} does as well here: {both} (within the noise of {details['count']:,} {details['count_of']})"
    elif sign * best > sign * ours:
        yield f"{what} is better here: {both}"


def _near(ours: float, theirs: float, count: int) -> bool:
    """Return whether one share of `count` lies in the confidence interval of the other."""
    pairs = ((ours, theirs), (theirs, ours))
    intervals = [(wilson(round(share * count), count), other) for share, other in pairs]
    return any(interval.low <= other <= interval.high for interval, other in intervals)


def _describe_thresholds(found: Mapping[str, Any]) -> str:
    """The decision thresholds of the first labels."""
    thresholds, default = found["thresholds"], found.get("default_thresholds", [])
    enough = f"{MIN_SUPPORT} with the label and {MIN_SUPPORT} without it"
    if len(default) == len(thresholds):
        what = f"of {found['examples']:,} validation examples no label has {enough}"
        if found["examples"] < MIN_EXAMPLES:
            what = f"{MIN_EXAMPLES} validation examples are needed, and the data has {found['examples']}"
        return f"no decision thresholds were chosen: {what}"
    named = ", ".join(f"{label} {value:.2f}" for label, value in list(thresholds.items())[:SHOWN_THRESHOLDS])
    more = f" and {len(thresholds) - SHOWN_THRESHOLDS:,} more" * (len(thresholds) > SHOWN_THRESHOLDS)
    some = ", ".join(default[:SHOWN_THRESHOLDS]) + ", …" * (len(default) > SHOWN_THRESHOLDS)
    kept = f"; not chosen for {some}, which have not {enough}" if default else ""
    return f"decision thresholds from {found['examples']:,} validation examples by F1: {named}{more}{kept}"


def _describe_calibration(found: Mapping[str, Any], part: str) -> str:
    if found["temperature"] == 1.0:
        why = "are too few" if found["examples"] < MIN_CALIBRATED else "confirm no temperature that lowers the loss"
        return f"probabilities are not calibrated: {found['examples']:,} validation examples {why}"
    errors = found[part]
    return (
        f"probabilities calibrated: temperature {found['temperature']:.2f} from {found['examples']:,} validation "
        f"examples; calibration error on {part} {100 * errors['before']:.1f}% → {100 * errors['after']:.1f}%; "
        "the loss is after it"
    )
