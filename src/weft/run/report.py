"""What a report says of a finished model: its scores, its size, what it was trained with."""

from __future__ import annotations

import platform
from typing import Any

import torch
from torch import nn

from weft.errors import counted
from weft.evaluate import evaluate
from weft.run.preparation import Prepared
from weft.version import __version__


def score(prepared: Prepared, model: nn.Module) -> dict[str, Any]:
    """The scores of the finished model, decoded as the configuration says; the test data is looked at only here."""
    report: dict[str, Any] = {}
    for part, examples in {"valid": prepared.valid, "test": prepared.test}.items():
        if examples is not None:
            found = evaluate(prepared.task, model, examples, decode=prepared.config.decode)
            report[part] = found.metrics
            report.setdefault("details", {})[part] = found.details
    return report


def count_parameters(model: nn.Module) -> int:
    """Numbers that training may change; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def versions() -> dict[str, str]:
    return {"weft": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
