"""A Hugging Face checkpoint as a run: the settings, tokenizer and weights of one of the architectures in `READERS`.

Each architecture is one file with a function from an open checkpoint to a `Found`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from weft.catalog import TASKS
from weft.config import Config, merge, validate
from weft.errors import ConfigError, DataError, did_you_mean
from weft.importing.bert import FAMILIES, read_masked, read_sequence, read_tokens
from weft.importing.checkpoint import CONFIG, Checkpoint, name_some, open_checkpoint
from weft.importing.found import Found
from weft.importing.gpt2 import read_gpt2
from weft.importing.marian import read_marian
from weft.run import Run, load
from weft.run.folder.files import check_path
from weft.run.folder.lock import claim_folder
from weft.run.folder.save import ModelFiles, save_run
from weft.tasks import Facts

READERS: Final[Mapping[str, Callable[[Checkpoint], Found]]] = {
    "GPT2LMHeadModel": read_gpt2,
    "MarianMTModel": read_marian,
    **{f"{name}ForMaskedLM": partial(read_masked, family=family) for name, family in FAMILIES.items()},
    **{f"{name}ForTokenClassification": partial(read_tokens, family=family) for name, family in FAMILIES.items()},
    **{f"{name}ForSequenceClassification": partial(read_sequence, family=family) for name, family in FAMILIES.items()},
}
"""The function that reads each architecture."""

PAIRED: Final = ("classify", "regress")
"""The tasks whose inputs may be pairs of texts."""

ONE_EXAMPLE: Final = Facts(1, 1)
"""The size of the training data, which is not known; defaults for training do not matter here."""

NOTHING_MISSING: Final = ("position_ids", "attn.bias", "attn.masked_bias", "embed_positions.weight")
"""Ends of the names of tensors that follow from the settings."""

Note = Callable[[str], None]


def import_huggingface(
    folder: str | Path, *, out: str | Path | None = None, pair: bool = False, note: Note | None = None
) -> Run:
    """Make a run in the folder `out` of the checkpoint in `folder`. `note` is called with what was left out.

    With `pair` the inputs of a classifier are pairs of texts.
    """
    check_path(folder, "folder")
    with open_checkpoint(Path(folder)) as checkpoint:
        found = _reader(checkpoint)(checkpoint)
        if pair and found.task not in PAIRED:
            raise ConfigError(f"does not go with a run of {found.task}", where="--pair", cure="leave it out")
        config = _config(found, checkpoint, {"pair": "second"} if pair else {})
        model = TASKS[found.task].build(config.model, found.codec)
        _fill(model, found, checkpoint)
        left = [name for name in checkpoint.unread() if not name.endswith(NOTHING_MISSING)]
    notes = [*found.notes, *([f"left out: {name_some(left)}, which the model does not use"] if left else [])]
    if note is not None:
        for said in notes:
            note(said)
    with claim_folder(out, config.task, resume=None) as target:
        save_run(target, ModelFiles(config, found.codec, model), model.state_dict())
    return load(target)


def _reader(checkpoint: Checkpoint) -> Callable[[Checkpoint], Found]:
    config, where = checkpoint.config, str(checkpoint.folder / CONFIG)
    if config.get("quantization_config"):
        cure = "save the model in float32 or bfloat16 and import that"
        raise DataError("quantization_config: a quantized model cannot be imported", where=where, cure=cure)
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        what = f"architectures = {names!r:.60} is not one name"
        raise DataError(what, where=where, cure=f"weft imports {', '.join(READERS)}")
    if names[0] not in READERS:
        what = f'architectures = ["{names[0]:.60}"] cannot be imported'
        raise DataError(what, where=where, cure=did_you_mean(names[0], READERS))
    return READERS[names[0]]


def _config(found: Found, checkpoint: Checkpoint, more: Mapping[str, str]) -> Config:
    data = {"train": str(checkpoint.folder), **found.data, **more}
    tree = {"task": found.task, "data": data, "text": found.text, "model": found.model, "decode": found.decode}
    defaults = TASKS[found.task].defaults(ONE_EXAMPLE, tree)
    defaults.pop("text", None)
    defaults.pop("model", None)
    try:
        return validate(merge(defaults, tree), keep_unread=True)
    except ConfigError as error:
        raise DataError(f"describes no model of weft: {error}", where=str(checkpoint.folder / CONFIG)) from None


@torch.no_grad()
def _fill(model: nn.Module, found: Found, checkpoint: Checkpoint) -> None:
    """Copy the tensors into the model; every one of the model must be there."""
    targets: dict[str, Any] = model.state_dict(keep_vars=True)
    filled = set[int]()
    for name, tensor in found.tensors:
        target = targets[name]
        assert target.shape == tensor.shape, f"{name} is {tuple(target.shape)}, not {tuple(tensor.shape)}"
        target.copy_(tensor)
        filled.add(id(target))
    lacking = [name for name, target in targets.items() if id(target) not in filled]
    assert not lacking, f"{checkpoint.folder} gives no {name_some(lacking)}"
