"""The settings, tokenizers and labels of a run, read from its folder; the weights are read in load.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from weft.catalog import TASKS
from weft.config import Config, UnknownName, validate
from weft.config.tree import HEAD
from weft.data import Statistics
from weft.errors import ConfigError, RunError
from weft.limits import TOKENIZER_FILE_BYTES
from weft.nn import CellClass
from weft.run.folder.files import CONFIG, LABELS, STATISTICS, WEIGHTS, shorten, tokenizer_file
from weft.run.folder.manifest import RunFiles, check_version, read_run
from weft.run.hub.address import local_folder
from weft.tasks import Codec
from weft.text import Tokenizer

MIN_ENTRIES: Final = 1 << 16
"""Entries that a tokenizer may always have, however few weights there are: they are built quickly."""


def load_config(folder: str | Path, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """Return the configuration of a run, without the entries on the format that precede it in the file."""
    return read_run(local_folder(folder, cells=cells), lambda files: read_run_config(files, cells))


def read_run_config(files: RunFiles, cells: Mapping[str, CellClass] | None) -> Config:
    """Read the configuration of a run."""
    tree, where = files.read_json(CONFIG), str(files.folder / CONFIG)
    if not isinstance(tree, dict):
        raise RunError("is not a table of settings", where=where)
    check_version(tree.get("format_version", 0), where, written_by=tree.get("weft_version"))
    tree = {key: value for key, value in tree.items() if key not in HEAD}
    try:
        return validate(tree, cells=cells, keep_unread=True)
    except UnknownName as error:
        what = f'has {error.noun} of its own, "{shorten(error.name)}"'
        raise RunError(what, where=str(files.folder), cure=f"give its class: {shorten(error.how)}") from None
    except ConfigError as error:
        raise RunError(str(error), where=where) from None


def read_codec(files: RunFiles, config: Config) -> Codec:
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
