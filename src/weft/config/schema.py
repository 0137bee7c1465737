"""The one typed schema: strict reading with errors that name the setting, and filling with what suits task and data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from weft.catalog import TASKS
from weft.config.tree import Tree, flatten, merge, nest, read_tree
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, did_you_mean
from weft.nn import CellClass, UnknownCell
from weft.settings import OneOf, Settings, explain
from weft.tasks import DataConfig, Facts
from weft.tasks.task import written
from weft.text import TextConfig
from weft.training import TrainConfig


class Config(Settings):
    """A whole configuration. `data`, `text` and `model` are of the task's own types."""

    task: str
    """lm, classify, tag or translate."""
    name: str | None = None
    """A name for the run, shown in its model card."""
    seed: int = Field(0, ge=0)
    """Where every source of chance starts."""
    data: DataConfig
    text: TextConfig
    model: Settings
    train: TrainConfig = Field(default_factory=TrainConfig)
    decode: DecodeConfig = Field(default_factory=DecodeConfig)

    def tree(self) -> Tree:
        """Every setting, as plain tables."""
        return self.model_dump(mode="json", exclude_none=True)


@cache
def schema(task: str) -> type[Config]:
    """The configuration of one task."""
    sections = TASKS[task].sections
    return create_model(
        f"{task.title()}Config",
        __base__=Config,
        __doc__=f"A configuration for {task}.",
        data=(sections.data, ...),
        text=(sections.text, Field(default_factory=sections.text)),
        model=(sections.model, Field(default_factory=dict, validate_default=True)),
    )


def read_config(
    source: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    cells: Mapping[str, CellClass] | None = None,
) -> Tree:
    """The settings a person wrote, from a file or a table, with overrides such as {"train.rate": 3e-4}; checked."""
    tree = dict(source) if isinstance(source, Mapping) else read_tree(source)
    for path, value in (overrides or {}).items():
        tree = merge(tree, nest(path, value))
    validate(tree, cells=cells)
    return tree


def fill(tree: Tree, facts: Facts, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """Every setting decided: the user's own first, then what suits data of this size, then the fixed defaults."""
    task = TASKS[validate(tree, cells=cells).task]
    defaults = task.defaults(facts, tree)
    if "steps" in tree.get("train", {}):
        defaults["train"].pop("epochs", None)
    if tree.get("text", {}).get("kind", defaults["text"]["kind"]) != defaults["text"]["kind"]:
        del defaults["text"]  # it was meant for another kind of token
    return validate(merge(defaults, tree), cells=cells)


def validate(tree: Mapping[str, Any], *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """A `Config` of the right task, or the first thing that is wrong with the tree.

    `cells` are a person's own, by the names that the tree may use for them; they serve this reading only.
    """
    task = tree.get("task")
    if task is None:
        raise ConfigError("is missing", where="task", cure=f"choose from {', '.join(sorted(TASKS))}")
    if task not in TASKS:
        raise ConfigError("is not a task", where=f'task = "{task}"', cure=did_you_mean(str(task), TASKS))
    try:
        return schema(task).model_validate(dict(tree), context={"cells": cells or {}})
    except ValidationError as error:
        path, names = _locate(error.errors()[0]["loc"], schema(task))
        found = explain(error, path, names)
        if error.errors()[0]["type"] == "extra_forbidden" and (cure := _other_place(path, tree)):
            found = ConfigError(found.what, where=found.where, cure=cure)
        raise _mention_own_cells(found) from found.__cause__


def _other_place(path: list[str], tree: Mapping[str, Any]) -> str:
    """The cure for a setting that stands elsewhere in the schema."""
    from weft.config.places import suggest_places  # which walks the schema of this file

    return suggest_places(path[-1], tree, written(tree, *path), near=False)


def _mention_own_cells(error: ConfigError) -> ConfigError:
    """An unknown cell may be one that a person has written and not brought along."""
    if not isinstance(error.__cause__, UnknownCell):
        return error
    near = f"{error.cure} " if error.cure and error.cure.endswith("?") else f"{error.cure}; "
    own = f'a cell of your own comes by --import FILE.py:CLASS or cells={{"{error.__cause__.name}": …}}'
    return ConfigError(error.what, where=error.where, cure=near + own)


def _locate(location: tuple[int | str, ...], model: type[Settings]) -> tuple[list[str], list[str]]:
    """The path of a finding without pydantic's marks for the arms of a union, and the names that are valid there."""
    path: list[str] = []
    current: type[Settings] | OneOf | None = model
    for part in location:
        if current is None:
            continue
        if isinstance(current, OneOf):
            current = current.arms[str(part)]
            continue
        path.append(str(part))
        field = current.model_fields.get(str(part))
        if field is None:
            return path, list(current.model_fields)
        current = table_in(field)
    return path, []


def table_in(field: FieldInfo) -> type[Settings] | OneOf | None:
    """The table that a field holds, or the kinds of table that it may hold; none if it holds a value."""
    for mark in field.metadata:
        if isinstance(mark, OneOf):
            return mark
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, Settings):
            return kind
    return None


def difference(one: Config, other: Config) -> list[tuple[str, Any, Any]]:
    """Settings that differ: path, value in the first, value in the second (None where there is none)."""
    left, right = dict(flatten(one.tree())), dict(flatten(other.tree()))
    paths = list(dict.fromkeys([*left, *right]))
    return [(path, left.get(path), right.get(path)) for path in paths if left.get(path) != right.get(path)]
