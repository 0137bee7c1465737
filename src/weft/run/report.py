"""The report of a finished run: its scores, those of baselines, its size and speed; written to and read from disk."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from weft.config import Config
from weft.errors import RunError, WeftError, counted
from weft.evaluate import evaluate
from weft.models import FittedModel
from weft.run.card import model_card
from weft.run.data_facts import describe_data
from weft.run.folder.files import CARD, REPORT, read_table, write_json, write_text
from weft.run.prepare import Prepared
from weft.tasks import Tree
from weft.version import __version__

NUMBER: Final = (int, float)
FACT_TYPES: Final[dict[str, Any]] = dict.fromkeys(("parameters", "seconds", "tokens_per_second", "steps"), NUMBER) | {
    "details": dict,
    "ended": str,
    "valid": dict,
}
DETAIL_TYPES: Final[dict[str, Any]] = {
    "perplexity_unit": str,
    "vocabulary": NUMBER,
    "unknown_share": NUMBER,
}
"""Types of the values that a report has beside the scores, and in the details of each part of the data."""


def score(prepared: Prepared, model: nn.Module, calibration: Mapping[str, Any]) -> dict[str, Any]:
    """Score the finished model, decoded as the configuration says. The test data is used only here."""
    report: dict[str, Any] = {}
    parts = {"valid": prepared.valid, "test": prepared.test}
    for part, examples in parts.items():
        if examples is not None:
            found = evaluate(prepared.task, model, examples, decode=prepared.config.decode)
            report[part] = found.metrics
            report.setdefault("details", {})[part] = found.details
    if calibration:
        report["calibration"] = {**calibration, **_calibration_errors(report["details"])}
    if baselines := fit_baselines(prepared, model):
        report["baselines"] = baselines
    if prepared.overlaps:
        report["overlaps"] = list(prepared.overlaps)
    report["data"] = describe_data(prepared.config.data, {"train": prepared.train, **parts})
    return report


def _calibration_errors(details: Mapping[str, Tree]) -> Tree:
    """Return the expected calibration error of each part, before and after calibration."""
    found: Tree = {}
    for part, about in details.items():
        after = about.get("calibration_error")
        if after is not None:
            found[part] = {"before": about.get("calibration_error_before", after), "after": after}
    return found


def fit_baselines(prepared: Prepared, model: nn.Module) -> Tree:
    """Return scores of simple models on validation and test data; none if the training file cannot be read again."""
    if prepared.records is None:
        return {}
    parts = {"valid": prepared.valid.records or (), "test": prepared.test.records or () if prepared.test else ()}
    some = {part: records for part, records in parts.items() if records}
    try:
        return dict(prepared.task.baselines(prepared.records, some, model=model, seed=prepared.config.seed))
    except (WeftError, OSError):
        return {}


def count_parameters(model: nn.Module) -> int:
    """Count the numbers that training may change; a tied matrix counts once."""
    fitted = isinstance(model, FittedModel)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad or fitted)


def describe_device(device: torch.device) -> str:
    """Name the GPU, or the device with its number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def versions() -> dict[str, str]:
    """Return the versions of weft, torch and Python."""
    return {"weft": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def save_report(folder: Path, config: Config, report: dict[str, Any]) -> None:
    """Write the model card and then the report, which marks the run as finished."""
    write_text(folder / CARD, model_card(config, report))
    write_json(folder / REPORT, report)


def read_report(folder: Path, *, whole: bool = False) -> dict[str, Any]:
    """Read the report of a run; empty where its training has not ended. An infinite score is stored as null.

    With `whole` it must have every value that is shown.
    """
    if not (folder / REPORT).exists():
        return {}
    report = read_table(folder / REPORT)
    _check_facts(report, folder / REPORT, whole=whole)
    for part in ("valid", "test"):
        scores = report.get(part, {})
        if not isinstance(scores, dict) or not all(isinstance(score, int | float | None) for score in scores.values()):
            raise RunError(f'has no scores in "{part}"', where=str(folder / REPORT), cure="copy it again")
        if part in report:
            report[part] = {name: math.inf if score is None else score for name, score in scores.items()}
    return report


def _check_facts(report: dict[str, Any], path: Path, *, whole: bool) -> None:
    """Raise where a value beside the scores is not of the type that weft writes."""
    wanted = [name for name in FACT_TYPES if whole or name in report]
    wrong = [name for name in wanted if not isinstance(report.get(name), FACT_TYPES[name])]
    wrong += [name for name in ("baselines", "calibration") if not isinstance(report.get(name, {}), dict)]
    if not wrong:
        details = report.get("details", {})
        parts = [name for name in ("valid", "test") if name in (report if whole else details)]
        wrong = [f"details.{name}" for name in parts if not _are_details(details.get(name))]
    if wrong:
        raise RunError(f'has no "{wrong[0]}" as weft writes it', where=str(path), cure="copy it again")


def _are_details(details: Any) -> bool:
    """Return whether this can be the details of one part of the data."""
    if not isinstance(details, dict):
        return False
    shown = details.get("shown", [])
    plain = isinstance(shown, list) and all(isinstance(name, str) for name in shown)
    return plain and all(isinstance(details[name], kind) for name, kind in DETAIL_TYPES.items() if name in details)
