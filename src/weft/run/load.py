"""Loading a run: only files of known names are read, each is checked against the manifest, nothing is executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import nn

from weft.catalog import TASKS
from weft.config import Config, UnknownName, validate
from weft.config.tree import HEAD
from weft.data import Statistics
from weft.errors import ConfigError, RunError, WeftError
from weft.limits import TOKENIZER_FILE_BYTES
from weft.models import FittedModel
from weft.nn import CellClass
from weft.run.folder.files import CONFIG, LABELS, STATISTICS, WEIGHTS, check_path, shorten, tokenizer_file
from weft.run.folder.manifest import RunFiles, check_version, read_run
from weft.run.folder.weights import open_tensors
from weft.run.model_size import check_loads, meta_device
from weft.run.run import Run
from weft.run.user_classes import has_user_class
from weft.tasks import Codec
from weft.text import Tokenizer
from weft.training import choose_device

MIN_ENTRIES: Final = 1 << 16
"""Entries that a tokenizer may always have, however few weights there are: they are built quickly."""


def load(path: str | Path, *, device: str = "auto", cells: Mapping[str, CellClass] | None = None) -> Run:
    """Read a run folder. Every file is checked against the manifest; nothing in it is ever executed.

    The folder holds only the names of classes of your own: give that of a cell again, as in cells={"mine": MyCell}, and
    add that of a task, an encoder or a decoder to its dict in weft.catalog before: TASKS["count"] = Count.
    """
    check_path(path, "path")
    return read_run(Path(path), lambda files: _load(files, device=device, cells=cells))


def _load(files: RunFiles, *, device: str, cells: Mapping[str, CellClass] | None) -> Run:
    config = _read_config(files, cells)
    kind = TASKS[config.task]
    codec = _read_codec(files, config)
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


def load_config(folder: Path, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """Return the configuration of a run, without the entries on the format that precede it in the file."""
    return read_run(folder, lambda files: _read_config(files, cells))


def _read_config(files: RunFiles, cells: Mapping[str, CellClass] | None) -> Config:
    tree, where = files.read_json(CONFIG), str(files.folder / CONFIG)
    if not isinstance(tree, dict):
        raise RunError("is not a table of settings", where=where)
    check_version(tree.get("format_version", 0), where)
    tree = {key: value for key, value in tree.items() if key not in HEAD}
    try:
        return validate(tree, cells=cells, keep_unread=True)
    except UnknownName as error:
        what = f'has {error.noun} of its own, "{shorten(error.name)}"'
        raise RunError(what, where=str(files.folder), cure=f"give its class: {shorten(error.how)}") from None
    except ConfigError as error:
        raise RunError(str(error), where=where) from None


def _read_codec(files: RunFiles, config: Config) -> Codec:
    """Read the tokenizers and labels of a run."""
    labels = files.read_json(LABELS) if files.has(LABELS) else []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RunError("is not a list of labels", where=str(files.folder / LABELS))
    if files.has(LABELS) and not labels:
        raise RunError("has no labels", where=str(files.folder / LABELS), cure="copy it again")
    if len(set(labels)) < len(labels):
        raise RunError("has a label twice", where=str(files.folder / LABELS), cure="copy it again")
    # Every entry of a vocabulary has at least one weight of its own, of two bytes or more.
    entries = max(_size(files.folder / WEIGHTS) // 2, MIN_ENTRIES)
    tokenizers: dict[str, Tokenizer] = {}
    for role, text in TASKS[config.task].tokenizer_roles(config.text, config.data).items():
        name = tokenizer_file(role)
        content = files.read(name, most=TOKENIZER_FILE_BYTES)
        tokenizers[role] = Tokenizer.parse(content, text, where=str(files.folder / name), most=entries)
    return Codec(tokenizers, tuple(labels), _read_statistics(files, config))


def _read_statistics(files: RunFiles, config: Config) -> dict[str, Statistics]:
    """Read the means and scales of numbers in the training data; none for a run of texts and labels."""
    wanted = TASKS[config.task].statistic_sizes(config.data)
    tree, where = files.read_json(STATISTICS) if files.has(STATISTICS) else {}, str(files.folder / STATISTICS)
    if not isinstance(tree, dict):
        raise RunError("is not a table of statistics", where=where, cure="copy it again")
    if set(tree) != set(wanted):
        raise RunError(
            f"has not the statistics of {' and '.join(wanted) or 'nothing'}", where=where, cure="copy it again"
        )
    try:
        found = {name: Statistics.of_tree(table) for name, table in tree.items()}
    except ValueError as error:
        raise RunError(str(error), where=where, cure="copy it again") from None
    for name, size in wanted.items():
        if size is not None and len(found[name].mean) != size:
            raise RunError(f'has {len(found[name].mean)} numbers in "{name}"', where=where, cure="copy it again")
    return found


def _size(path: Path) -> int:
    """Return the size of a file, which is not opened yet; 0 if it is missing, which is an error later."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0
