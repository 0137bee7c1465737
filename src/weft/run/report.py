"""What a report says of a finished model: its scores, simple models beside it, its size, what it was trained with."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from weft.errors import WeftError, counted
from weft.evaluate import evaluate
from weft.run.preparation import Prepared
from weft.tasks import Tree
from weft.version import __version__


def score(prepared: Prepared, model: nn.Module, calibration: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of the finished model, decoded as the configuration says; the test data is looked at only here."""
    report: dict[str, Any] = {}
    parts = {"valid": prepared.valid, "test": prepared.test}
    for part, examples in parts.items():
        if examples is not None:
            found = evaluate(prepared.task, model, examples, decode=prepared.config.decode)
            report[part] = found.metrics
            report.setdefault("details", {})[part] = found.details
    if calibration:
        report["calibration"] = {**calibration, **_calibration_errors(report["details"])}
    if baselines := fit_baselines(prepared):
        report["baselines"] = baselines
    return report


def _calibration_errors(details: Mapping[str, Tree]) -> Tree:
    """The expected calibration error of each part, before and after."""
    found: Tree = {}
    for part, about in details.items():
        after = about["calibration_error"]
        found[part] = {"before": about.get("calibration_error_before", after), "after": after}
    return found


def fit_baselines(prepared: Prepared) -> Tree:
    """Scores of simple models on validation and test data; none where the training file can no longer be read."""
    if prepared.records is None:
        return {}
    parts = {"valid": prepared.valid.records or (), "test": prepared.test.records or () if prepared.test else ()}
    some = {part: records for part, records in parts.items() if records}
    try:
        return dict(prepared.task.baselines(prepared.records, some, seed=prepared.config.seed))
    except (WeftError, OSError):
        return {}


def count_parameters(model: nn.Module) -> int:
    """Numbers that training may change; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def versions() -> dict[str, str]:
    return {"weft": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
