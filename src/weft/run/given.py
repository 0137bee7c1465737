"""Data given in Python: taken out of a configuration, which names it, and read by that name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from weft.config import merge, read_tree
from weft.config.tree import check_key, nest
from weft.data import BadLines, Objects, Record, each_row, find_objects
from weft.errors import ConfigError, DataError
from weft.settings import show
from weft.tasks import Task, Tree

PARTS: Final = ("train", "valid", "test")

Given: TypeAlias = Mapping[str, Objects]
"""Python data by the name that stands for it in the configuration."""

EMPTY: Final[Given] = {}


def take_given(source: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[Tree, Given]:
    """A configuration, not yet checked, in which names stand for the Python data it had; and that data."""
    tree = dict(source) if isinstance(source, Mapping) else read_tree(source)
    if not isinstance(overrides, Mapping):
        cure = 'give a dict, such as {"train.rate": 3e-4}'
        raise ConfigError("are no settings", where=f"overrides = {show(overrides)}", cure=cure)
    for path, value in overrides.items():
        check_key(path)
        section, _, part = path.partition(".")
        if section == "data" and part in PARTS:  # data may be a dict of columns, which is no table of settings
            tree["data"] = {**tree.get("data", {}), part: value}
        else:
            tree = merge(tree, nest(path, value))
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return tree, EMPTY  # an error when the configuration is read
    given, plain = dict[str, Objects](), dict(data)
    for part in PARTS:
        if data.get(part) is not None:
            found = find_source(data[part], f"data.{part}")
            plain[part] = str(found) if isinstance(found, Objects) else found
            given |= {str(found): found} if isinstance(found, Objects) else {}
    return {**tree, "data": plain}, given


def find_source(data: Any, name: str) -> str | list[str] | Objects:
    """Python data, or one path or several as plain strings."""
    found = find_objects(data, name)
    if found is not None:
        return found
    paths = [os.fspath(path) for path in ([data] if isinstance(data, str | os.PathLike) else data)]
    for path in paths:
        if "\0" in path:
            raise DataError("has a NUL, which no path can have", where=f"{name} = {path!a:.100}")
    return paths[0] if isinstance(data, str | os.PathLike) else paths


def each_input(inputs: Any) -> Iterator[Any]:
    """What predictions are made for, one by one, from any sequence of them."""
    if inputs is None:
        raise DataError("None is no input", where="inputs", cure='give a text, such as "…", or a list of texts')
    if isinstance(inputs, os.PathLike):
        cure = "read the file first, or: weft predict RUN FILE"
        raise DataError("a path, where texts are expected", where="inputs", cure=cure)
    return each_row(inputs, "inputs")


def read_records(
    task: Task | type[Task], source: str | list[str] | Objects, data: Any, bad: BadLines
) -> Iterator[Record]:
    """The records of a file or of Python data, as the `[data]` section says."""
    if isinstance(source, Objects):
        return source.read(task.columns(data), bad)
    return task.read(source, data, bad)
