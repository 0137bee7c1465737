"""Loading a run: known file names only, checked against the manifest, nothing executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from torch import nn

from weft.catalog import TASKS
from weft.config import Config, validate
from weft.config.tree import HEAD
from weft.errors import ConfigError, RunError, WeftError
from weft.limits import TOKENIZER_FILE
from weft.nn import CellClass, UnknownCell
from weft.run.files import check_path, shorten
from weft.run.fits import check_loads
from weft.run.manifest import RunFiles, check_version, read_run
from weft.run.outline import outlines
from weft.run.run import Run
from weft.run.save import CONFIG, LABELS, WEIGHTS, tokenizer_file
from weft.run.weights import open_tensors
from weft.tasks import Codec
from weft.text import Tokenizer
from weft.training import choose_device

FEW_ENTRIES: Final = 1 << 16
"""Entries of a tokenizer that are built quickly, however few weights there are."""


def load(path: str | Path, *, device: str = "auto", cells: Mapping[str, CellClass] | None = None) -> Run:
    """Read a run folder. Every file is checked against the manifest; nothing in it is ever executed.

    The folder only names a cell of your own: give its class again, as in cells={"mine": MyCell}.
    """
    check_path(path, "path")
    return read_run(Path(path), lambda files: _load(files, device=device, cells=cells))


def _load(files: RunFiles, *, device: str, cells: Mapping[str, CellClass] | None) -> Run:
    config = _read_config(files, cells)
    kind = TASKS[config.task]
    codec = _read_codec(files, config)
    files.only([CONFIG, WEIGHTS, LABELS, *map(tokenizer_file, codec.tokenizers)])

    def build() -> nn.Module:
        return kind.build(config.model, codec)

    outline, place = _outline(build, files.folder / CONFIG, own=bool(cells)), choose_device(device, where="device")
    with open_tensors(files, WEIGHTS, like=outline) as stored:
        check_loads(outline, place, where=str(files.folder))
        model = build()
        stored.fill(model)
    return Run(files.folder, config, kind(codec, config.data), model.to(place).eval())


def _outline(build: Callable[[], nn.Module], path: Path, *, own: bool) -> nn.Module:
    """The model without memory, which is taken only once its sizes are known to be those of the weights."""
    try:
        with outlines():
            return build()
    except WeftError as error:
        raise RunError(str(error), where=str(path)) from None
    except (RuntimeError, OverflowError) as error:
        if own:  # a mistake in the code of a person's own cell
            raise
        what = f"describes no model that can be built: {str(error).splitlines()[0]:.100}"
        raise RunError(what, where=str(path)) from None


def load_config(folder: Path, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """The configuration of a run, without the words about the format that stand before it."""
    return read_run(folder, lambda files: _read_config(files, cells))


def _read_config(files: RunFiles, cells: Mapping[str, CellClass] | None) -> Config:
    tree, where = files.read_json(CONFIG), str(files.folder / CONFIG)
    if not isinstance(tree, dict):
        raise RunError("is not a table of settings", where=where)
    check_version(tree.get("format_version", 0), where)
    tree = {key: value for key, value in tree.items() if key not in HEAD}
    try:
        return validate(tree, cells=cells, keep_unread=True)
    except ConfigError as error:
        if isinstance(error.__cause__, UnknownCell):
            name = shorten(str(error.__cause__.name))
            cure = f'give its class: cells={{"{name}": …}}, or --import {name}=FILE.py:CLASS'
            raise RunError(f'has a cell of its own, "{name}"', where=str(files.folder), cure=cure) from None
        raise RunError(str(error), where=where) from None


def _read_codec(files: RunFiles, config: Config) -> Codec:
    """Tokenizers and labels of a run."""
    labels = files.read_json(LABELS) if files.has(LABELS) else []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RunError("is not a list of labels", where=str(files.folder / LABELS))
    if files.has(LABELS) and not labels:
        raise RunError("has no labels", where=str(files.folder / LABELS), cure="copy it again")
    if len(set(labels)) < len(labels):
        raise RunError("has a label twice", where=str(files.folder / LABELS), cure="copy it again")
    # Every entry has a number of its own among the weights, of two bytes or more.
    entries = max(_size(files.folder / WEIGHTS) // 2, FEW_ENTRIES)
    tokenizers: dict[str, Tokenizer] = {}
    for role, text in TASKS[config.task].roles(config.text).items():
        name = tokenizer_file(role)
        content = files.read(name, most=TOKENIZER_FILE)
        tokenizers[role] = Tokenizer.parse(content, text, where=str(files.folder / name), most=entries)
    return Codec(tokenizers, tuple(labels))


def _size(path: Path) -> int:
    """Of a file as the folder lists it; nothing is opened yet, and one that is missing will be missed then."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0
