"""The header of a model card: YAML between two lines of ---, which the Hugging Face hub reads.

    library_name, pipeline_tag, tags    by which the hub lists models
    language                            the codes of target languages, where the data names them
    model-index                         the scores of the report, number by number

A license is not among what weft knows: whoever publishes the model adds it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weft.catalog import TASKS
from weft.config import Config
from weft.documents import to_json
from weft.metric_text import metric_name
from weft.run.harmless import last_part

PARTS: Final = {"valid": "validation", "test": "test"}
"""The names of the parts of the data here and on the hub."""

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}")


def header(config: Config, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the header."""
    yield from ("---", "library_name: weft")
    yield from pipeline(config.task)
    if codes := _languages(report):
        yield from ("language:", *(f"- {code}" for code in codes))
    yield from ("tags:", "- weft", *(f"- {to_json(tag)}" for tag in _tags(config)))
    yield from _index(config, report)
    yield "---"


def pipeline(task: str) -> list[str]:
    """Return the line of a card's header that names the task for model hubs; empty where they have no name for it."""
    tag = TASKS[task].pipeline_tag
    return [] if tag is None else [f"pipeline_tag: {tag}"]


def title(config: Config) -> str:
    """The name of the model."""
    return config.name or f"weft {config.task}"


def signature(details: Mapping[str, Any], metric: str) -> str | None:
    """How a score was computed, where that is a part of its name, such as the signature of sacreBLEU."""
    found = details.get(f"{metric}_signature", details.get(f"{metric}_unit"))
    return found if isinstance(found, str) else None


def _tags(config: Config) -> Iterator[str]:
    """The task and the kinds of network."""
    yield config.task
    tables = (config.model, getattr(config.model, "encoder", None), getattr(config.model, "decoder", None))
    kinds = dict.fromkeys(getattr(table, "kind", None) for table in tables)
    yield from (kind for kind in kinds if isinstance(kind, str) and kind != config.task)


def _languages(report: Mapping[str, Any]) -> list[str]:
    """The languages that the model writes, where all of them have the form of a code."""
    parts = report.get("details", {}).values()
    found = sorted({str(row["language"]) for part in parts for row in part.get("by_language", ())})
    return found if all(_LANGUAGE.fullmatch(code) for code in found) else []


def _index(config: Config, report: Mapping[str, Any]) -> Iterator[str]:
    results = [line for part in PARTS if part in report for line in _result(config, report, part)]
    if results:
        yield from ("model-index:", f"- name: {to_json(title(config))}", "  results:", *results)


def _result(config: Config, report: Mapping[str, Any], part: str) -> Iterator[str]:
    """Yield the scores on one part of the data; the hub has no place for one that is not finite."""
    details = report.get("details", {}).get(part, {})
    scores = {name: value for name, value in report[part].items() if value is not None and math.isfinite(value)}
    if not scores:
        return
    data = data_name(config, part)
    yield from ("  - task:", f"      type: {TASKS[config.task].pipeline_tag or 'other'}", f"      name: {config.task}")
    yield from (
        "    dataset:",
        f"      name: {to_json(data)}",
        f"      type: {to_json(data)}",
        f"      split: {PARTS[part]}",
    )
    yield "    metrics:"
    for name, value in scores.items():
        yield from (f"    - type: {to_json(name)}", f"      value: {value!r}")
        how = signature(details, name)
        yield f"      name: {to_json(metric_name(name) + (f' ({how})' if how else ''))}"


def data_name(config: Config, part: str) -> str:
    """The file of a part of the data; a part that was set aside has the name of the file of the training data."""
    given = getattr(config.data, part, None)
    given = given if isinstance(given, str | list) else config.data.train
    return ", ".join(last_part(one) for one in (given if isinstance(given, list) else [given]))
