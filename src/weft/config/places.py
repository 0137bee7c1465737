"""The paths of all settings, and the right path for a setting that is written in the wrong place."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from weft.catalog import TASKS
from weft.config.schema import schema, table_in
from weft.config.tree import to_toml_value
from weft.settings import OneOf, Settings

ALIASES: Final = {"lr": "rate", "learning_rate": "rate", "batch_size": "batch_tokens"}
"""Names of settings in other software."""


def setting_paths(
    model: type[Settings], tree: Mapping[str, Any], *, tables: bool = False, path: tuple[str, ...] = ()
) -> Iterator[str]:
    """The path of every setting, or of every table, for networks of the kinds that the tree names."""
    for name, field in model.model_fields.items():
        table, below = table_in(field), tree.get(name)
        if isinstance(table, OneOf):
            table = table.arms.get(table.kind_of(below))
        if tables == (table is not None):
            yield ".".join((*path, name))
        if table is not None:
            inside = below if isinstance(below, Mapping) else {}
            yield from setting_paths(table, inside, tables=tables, path=(*path, name))


def suggest_places(name: str, tree: Mapping[str, Any], value: Any = None, *, near: bool = True) -> str:
    """The cure for a setting in the wrong place, such as `did you mean train.epochs=3?`; empty where none fits.

    `tree` is the rest of the configuration; without a task, the settings of all tasks are searched. `near` allows
    a name with a typing error.
    """
    tasks = [tree["task"]] if tree.get("task") in TASKS else list(TASKS)
    tables = isinstance(value, Mapping)
    paths = dict.fromkeys(path for task in tasks for path in setting_paths(schema(task), tree, tables=tables))
    asked = name.replace("-", "_")
    if asked in ALIASES:
        asked, value = ALIASES[asked], None  # its value may be in another unit
    found = [asked] if asked in paths else [path for path in paths if path.rpartition(".")[2] == asked]
    if not found and near:
        lasts = {path.rpartition(".")[2] for path in paths}
        close = difflib.get_close_matches(asked, lasts, n=1, cutoff=0.8)
        found = [path for path in paths if close and path.rpartition(".")[2] == close[0]]
    if not found:
        return ""
    return f"did you mean {' or '.join(path + _show(value) for path in found)}?"


def _show(value: Any) -> str:
    """The value as it is written on a command line; a table is left out."""
    if value is None or isinstance(value, Mapping):
        return ""
    return f"={value if isinstance(value, str) else to_toml_value(value)}"
