"""Loading a run: only files of known names are read, each is checked against the manifest, nothing is executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from weft.catalog import TASKS
from weft.errors import RunError, WeftError
from weft.models import FittedModel
from weft.nn import CellClass
from weft.run.folder.files import CONFIG, LABELS, STATISTICS, WEIGHTS, check_path, tokenizer_file
from weft.run.folder.manifest import RunFiles, read_run
from weft.run.folder.weights import open_tensors
from weft.run.hub.address import local_folder
from weft.run.model_size import check_loads, meta_device
from weft.run.run import Run
from weft.run.stored import read_codec, read_run_config
from weft.run.user_classes import has_user_class
from weft.training import choose_device


def load(path: str | Path, *, device: str = "auto", cells: Mapping[str, CellClass] | None = None) -> Run:
    """Read a run folder. Every file is checked against the manifest; nothing in it is ever executed.

    A text that begins with hf:// is a run on the Hugging Face hub, hf://OWNER/NAME or hf://OWNER/NAME@REVISION: it is
    downloaded into weft's cache first. No other path reaches the network.

    The folder holds only the names of classes of your own: give that of a cell again, as in cells={"mine": MyCell}, and
    add that of a task, an encoder or a decoder to its dict in weft.catalog before: TASKS["count"] = Count.
    """
    check_path(path, "path")
    folder = local_folder(path, cells=cells)
    return read_run(folder, lambda files: _load(files, device=device, cells=cells))


def _load(files: RunFiles, *, device: str, cells: Mapping[str, CellClass] | None) -> Run:
    config = read_run_config(files, cells)
    kind = TASKS[config.task]
    codec = read_codec(files, config)
    files.only([CONFIG, WEIGHTS, LABELS, STATISTICS, *map(tokenizer_file, codec.tokenizers)])

    def build() -> nn.Module:
        return kind.network(config, codec)

    meta, place = (
        _build_meta(build, files.folder / CONFIG, own=has_user_class(config)),
        choose_device(device, where="device"),
    )
    if isinstance(meta, FittedModel):
        place = torch.device("cpu")
    with open_tensors(files, WEIGHTS, like=meta) as stored:
        check_loads(meta, place, where=str(files.folder))
        model = build()
        stored.allocate(model)
        stored.fill(model)
    return Run(files.folder, config, kind(codec, config.data), model.to(place).eval())


def _build_meta(build: Callable[[], nn.Module], path: Path, *, own: bool) -> nn.Module:
    """Build the model on the "meta" device: it gets memory only when its sizes are known to be those of the weights."""
    try:
        with meta_device():
            return build()
    except WeftError as error:
        raise RunError(str(error), where=str(path)) from None
    except (RuntimeError, OverflowError) as error:
        if own:  # a mistake in the code of a user's own class
            raise
        what = f"describes no model that can be built: {str(error).splitlines()[0]:.100}"
        raise RunError(what, where=str(path)) from None
