"""The model card, and the sentences that summarise a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.catalog import TASKS
from weft.config import Config, to_toml
from weft.errors import counted
from weft.metrics import describe_vocabulary, shown, wilson
from weft.metrics.calibration import MIN_EXAMPLES as MIN_CALIBRATED
from weft.metrics.thresholds import MIN_EXAMPLES, MIN_SUPPORT
from weft.run.user_classes import user_cell_names, user_parts
from weft.training.progress import PERCENT, metric_name, show_metric, show_score

COMPARABLE = "perplexities compare only between runs with the same vocabulary; bits_per_character compares between all"

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


def model_card(config: Config, report: dict[str, Any]) -> str:
    """Return the text of README.md, with the header that model hubs read."""
    parts = [part for part in ("valid", "test") if part in report]
    every = report.get("details", {})
    rows = [
        f"| {part} | {metric_name(name)} | {show_score(name, value, every.get(part, {}))} |"
        for part in parts
        for name, value in shown(report[part], every.get(part, {}), config.train.metric).items()
    ]
    details = every.get("test") or every.get("valid", {})
    signatures = [f"- {name}: `{value}`" for name, value in details.items() if name.endswith(("signature", "unit"))]
    vocabularies = ((part, describe_vocabulary(every.get(part, {}))) for part in parts)
    signatures += [f"- {part}: {vocabulary}" for part, vocabulary in vocabularies if vocabulary]
    signatures += [line for part in parts for line in _by_language(part, every.get(part, {}))]
    signatures += [f"- {COMPARABLE}"] if "bits_per_character" in report.get("valid", {}) else []
    own = "".join(f', "{name}": …' for name in user_cell_names(config)).removeprefix(", ")
    return "\n".join(
        [
            "---",
            "library_name: weft",
            *pipeline(config.task),
            "---",
            "",
            f"# {config.name or f'weft {config.task}'}",
            "",
            f"Trained by weft {report['versions']['weft']} in {report['seconds']:.0f} s: "
            f"{counted(report['parameters'], 'parameter')}, {counted(report['steps'], 'update')}, "
            f"best at {report['best_step']:,}, seed {report['seed']}.",
            "",
            "| data | metric | value |",
            "|---|---|---|",
            *rows,
            "",
            *signatures,
            *(f"- {line}" for line in conclusions(report)),
            "",
            "```python",
            "import weft",
            *(["import weft.catalog", "", *user_parts(config)] if user_parts(config) else []),
            "",
            'run = weft.load("PATH_TO_THIS_FOLDER"' + (f", cells={{{own}}}" if own else "") + ")",
            'run.predict(["…"])',
            "```",
            "",
            "```toml",
            to_toml(config.tree()).strip(),
            "```",
            "",
        ]
    )


def _by_language(part: str, details: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each language with its scores."""
    for row in details.get("by_language", []):
        scores = ", ".join(
            f"{metric_name(name)} {show_score(name, row[name], {})}" for name in details["shown"] if name in row
        )
        yield f"- {part}, {row['language']}: {scores} ({counted(row['count'], details['count_of'].removesuffix('s'))})"


def pipeline(task: str) -> list[str]:
    """Return the line of a card's header that names the task for model hubs; empty where they have no name for it."""
    tag = TASKS[task].pipeline_tag
    return [] if tag is None else [f"pipeline_tag: {tag}"]


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
    noise = f" (within the noise of {details['count']:,} {details['count_of']})" if near else ""
    if sign * best > sign * ours:
        yield f"{what} is better here: {both}{noise}"
    elif noise:
        yield f"{what} does as well here: {both}{noise}"


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
