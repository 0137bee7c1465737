"""Saving a run: model files whenever a better model is found, the report and the model card at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from safetensors.torch import save_model
from torch import nn

from weft.config import Config
from weft.errors import RunError
from weft.run.card import card
from weft.run.files import read_table, write_file, write_json, write_text
from weft.run.manifest import FORMAT_VERSION, drop_manifest, hash_file, write_manifest
from weft.tasks import Codec
from weft.version import __version__

CONFIG, WEIGHTS, LABELS, REPORT, CARD = "config.json", "model.safetensors", "labels.json", "report.json", "README.md"


def tokenizer_file(role: str) -> str:
    return f"tokenizer_{role}.json" if role else "tokenizer.json"


def save_run(folder: Path, config: Config, codec: Codec, model: nn.Module) -> None:
    """All that loading needs. The manifest goes first and comes last, so a folder with one is never half of a run."""
    drop_manifest(folder)
    head = {"model_type": f"weft-{config.task}", "format_version": FORMAT_VERSION, "weft_version": __version__}
    write_json(folder / CONFIG, head | config.tree())
    names = [CONFIG, WEIGHTS]
    write_file(folder / WEIGHTS, lambda path: save_model(model, str(path)))
    for role, tokenizer in codec.tokenizers.items():
        names.append(tokenizer_file(role))
        write_file(folder / names[-1], tokenizer.save)
    if codec.labels:
        names.append(LABELS)
        write_json(folder / LABELS, list(codec.labels))
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


def save_report(folder: Path, config: Config, report: dict[str, Any]) -> None:
    """The report comes last: a folder with one holds a finished run."""
    write_text(folder / CARD, card(config, report))
    write_json(folder / REPORT, report)


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a run; empty where its training has not ended. A score too large to hold was written as null."""
    if not (folder / REPORT).exists():
        return {}
    report = read_table(folder / REPORT)
    for part in ("valid", "test"):
        scores = report.get(part, {})
        if not isinstance(scores, dict) or not all(isinstance(score, int | float | None) for score in scores.values()):
            raise RunError(f'has no scores in "{part}"', where=str(folder / REPORT), cure="copy it again")
        if part in report:
            report[part] = {name: math.inf if score is None else score for name, score in scores.items()}
    return report
