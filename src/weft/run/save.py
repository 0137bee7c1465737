"""Saving a run: model files whenever a better model is found, the report and the model card at the end."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from weft.config import Config
from weft.disk import read_regular, sync
from weft.errors import RunError
from weft.limits import TOKENIZER_FILE
from weft.run.card import card
from weft.run.files import json_bytes, read_table, staged, write_bytes, write_json, write_text
from weft.run.manifest import FORMAT_VERSION, drop_manifest, hash_file, open_run, write_manifest
from weft.run.tensors import tied_names, write_weights
from weft.tasks import Codec
from weft.version import __version__

CONFIG, WEIGHTS, LABELS, REPORT, CARD = "config.json", "model.safetensors", "labels.json", "report.json", "README.md"


NUMBER: Final = (int, float)
FACTS: Final[dict[str, Any]] = dict.fromkeys(("parameters", "seconds", "tokens_per_second", "steps"), NUMBER) | {
    "details": dict,
    "ended": str,
    "valid": dict,
}
DETAILS: Final[dict[str, Any]] = {
    "perplexity_unit": str,
    "vocabulary": NUMBER,
    "unknown_share": NUMBER,
}
"""Types of what a report says beside the scores, and of what it says of each part of the data."""


def tokenizer_file(role: str) -> str:
    return f"tokenizer_{role}.json" if role else "tokenizer.json"


class PlainFiles:
    """The files that loading needs but the weights: they are the same whenever a run is saved."""

    def __init__(self, config: Config, codec: Codec, model: nn.Module) -> None:
        head = {"model_type": f"weft-{config.task}", "format_version": FORMAT_VERSION, "weft_version": __version__}
        self.content = {CONFIG: json_bytes(head | config.tree())}
        for role, tokenizer in codec.tokenizers.items():
            self.content[tokenizer_file(role)] = tokenizer.to_json().encode()
        if codec.labels:
            self.content[LABELS] = json_bytes(list(codec.labels))
        self.hashes = {name: hashlib.sha256(content).hexdigest() for name, content in self.content.items()}
        self.tied = tied_names(model)


def save_run(folder: Path, files: PlainFiles, weights: Mapping[str, Tensor]) -> None:
    """Give a folder all that loading needs, so that whoever reads or is killed meanwhile has the old model or the new.

    The manifest lists both while the new weights take the place of the old. Only where the folder has no run yet, or
    one of other settings, is there no manifest until all is written.
    """
    before = old_weights(folder, files)
    if before is None:
        drop_manifest(folder)
        sync(folder)
        for path in (folder / LABELS, *folder.glob(tokenizer_file("*")), *folder.glob(tokenizer_file(""))):
            if path.name not in files.content:  # of a run of another task
                path.unlink(missing_ok=True)
        for name, content in files.content.items():
            write_bytes(folder / name, content)
    with staged(folder / WEIGHTS) as temporary:
        found = write_weights(temporary, weights, files.tied)
        sync(temporary)
        if before is not None and before != found:
            write_manifest(folder, files.hashes | {WEIGHTS: [found, before]})
        temporary.replace(folder / WEIGHTS)
        sync(folder)
    write_manifest(folder, files.hashes | {WEIGHTS: found})


def old_weights(folder: Path, files: PlainFiles) -> str | None:
    """The SHA-256 of the weights in a folder whose other files are these; None if there is no such run."""
    try:
        listed = dict(open_run(folder).hashes)
        before = listed.pop(WEIGHTS, ())
        if listed != {name: (found,) for name, found in files.hashes.items()}:
            return None
        for name, content in files.content.items():
            if read_regular(folder / name, most=max(TOKENIZER_FILE, len(content))) != content:
                return None
        if len(before) == 1:
            return before[0]
        found = hash_file(folder / WEIGHTS)  # of two, after a kill in the middle
    except (RunError, OSError):
        return None
    return found if found in before else None


def save_report(folder: Path, config: Config, report: dict[str, Any]) -> None:
    """The report comes last: a folder with one holds a finished run."""
    write_text(folder / CARD, card(config, report))
    write_json(folder / REPORT, report)


def read_report(folder: Path, *, whole: bool = False) -> dict[str, Any]:
    """The report of a run; empty where its training has not ended. A score too large to hold was written as null.

    With `whole` all that is shown of it must be there.
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
    """Raise where something that is shown beside the scores is not of the type that weft writes."""
    wrong = [name for name, kind in FACTS.items() if whole or name in report if not isinstance(report.get(name), kind)]
    wrong += [name for name in ("baselines", "calibration") if not isinstance(report.get(name, {}), dict)]
    if not wrong:
        details = report.get("details", {})
        parts = [name for name in ("valid", "test") if name in (report if whole else details)]
        wrong = [f"details.{name}" for name in parts if not _is_plain(details.get(name))]
    if wrong:
        raise RunError(f'has no "{wrong[0]}" as weft writes it', where=str(path), cure="copy it again")


def _is_plain(details: Any) -> bool:
    """Whether this is what a report says of a part of the data."""
    if not isinstance(details, dict):
        return False
    shown = details.get("shown", [])
    plain = isinstance(shown, list) and all(isinstance(name, str) for name in shown)
    return plain and all(isinstance(details[name], kind) for name, kind in DETAILS.items() if name in details)
