"""The one typed schema: strict reading with errors that name the setting, and filling with what suits task and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, get_args

from pydantic import Field, ValidationError, ValidationInfo, create_model, model_validator
from pydantic.fields import FieldInfo

from weft.catalog import CATALOG, ENCODERS, PARTS, TASKS
from weft.config.tree import Tree, check_values, flatten, merge, nest, read_tree, without
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, did_you_mean
from weft.models import FittedSettings, HeadedKinds, SpelledSettings
from weft.nn import CellClass, UnknownCell
from weft.settings import KEEP_UNREAD, OneOf, Seed, Settings, TableError, Unread, explain, show
from weft.tasks import DataConfig, Facts, Task
from weft.tasks.sections import written
from weft.text import TextConfig, word_defaults
from weft.training import TrainConfig, fill_gpu

TYPICAL_DATA: Final = Facts(examples=10_000, characters=600_000)
"""The size of common training data, for defaults before any data is read."""


class Config(Settings):
    """A whole configuration. `data`, `text` and `model` are of the task's own types."""

    task: str
    """lm, mask, classify, regress, tag, translate, caption, embed or forecast."""
    name: str | None = None
    """A name for the run, shown in its model card."""
    seed: Seed = 0
    """The seed of all random numbers."""
    data: DataConfig
    text: TextConfig
    model: Settings
    train: TrainConfig = Field(default_factory=TrainConfig)
    decode: DecodeConfig = Field(default_factory=DecodeConfig)

    def tree(self) -> Tree:
        """Every setting, as plain tables."""
        return self.model_dump(mode="json", exclude_none=True)

    def unread(self) -> Iterator[Unread]:
        if self.train.truncate is not None and self.data.running and getattr(self.data, "overlong", None) == "split":
            why = f"cuts nothing: train.truncate = {self.train.truncate} reads the pieces as one text"
            yield Unread("data.max_length", why, "remove one of the two")
        features = getattr(self.data, "features", None)
        if features is not None and not TASKS[self.task].tokenizer_roles(self.text, self.data):
            why = f"does nothing with data.features = {show(features)}: the input is no text"
            own = [name for name in ("word_dropout", "characters") if hasattr(self.model, name)]
            for name in [
                *(f"text.{name}" for name in type(self.text).model_fields),
                *(f"model.{name}" for name in own),
            ]:
                yield Unread(name, why, "remove one of the two")
        if not TASKS[self.task].weighs_labels:
            yield Unread("train.class_weights", f"weighs nothing: task = {self.task!r} has no labels", "remove it")
        if not TASKS[self.task].smooths_labels:
            yield Unread(
                "train.label_smoothing", f"smooths nothing: task = {self.task!r} predicts a number", "remove it"
            )
        if isinstance(self.model, FittedSettings):
            why = f'does nothing with model.kind = "{getattr(self.model, "kind", self.task)}"'
            for name in self.model.unused_train:
                yield Unread(f"train.{name}", why, "remove it")
            yield Unread("train.device", f"{why}, which runs on the CPU", "remove it", ("auto", "cpu"))
        if isinstance(self.model, SpelledSettings):
            for one in self.model.unread_train():
                yield one._replace(name=f"train.{one.name}")

    @model_validator(mode="after")
    def _metric_is_measured(self) -> Self:
        if self.train.metric is not None:
            check_metric(self.train.metric, TASKS[self.task].metrics)
        return self

    @model_validator(mode="after")
    def _sections_agree(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("keep_unread"):
            for error in TASKS[self.task].conflicts(self):
                raise error
        return self

    @model_validator(mode="after")
    def _positions_suffice(self, info: ValidationInfo) -> Self:
        if (info.context or {}).get("keep_unread"):
            return self
        most: int | None = dict(self.data).get("max_length")
        if most is None:
            return self
        tokens = TASKS[self.task].row_tokens(self)
        for path, longest in bounded_networks(self.model):
            if tokens > longest:
                marks = " and a start or end token" * (tokens > most)
                marks = f" on each side make rows of {tokens}, which" if tokens > most + 2 else marks
                cure = f'lower it, raise the other to {tokens}, or use positions = "sinusoid" or "rotary"'
                if self.train.start is not None:
                    cure = f"lower it to {longest - (tokens - most)}: the run of train.start has no more positions"
                raise TableError(
                    f"{most} tokens{marks} are more than {path}.max_positions = {longest}",
                    where=f"data.max_length = {most}",
                    cure=cure,
                )
        return self


def check_metric(name: str, names: Sequence[str]) -> None:
    """Raise an error for a metric that is none of those that are measured."""
    if name not in names:
        cure = did_you_mean(name, names)
        raise TableError("is not measured here", where=f"train.metric = {show(name)}", cure=cure)


def networks(model: Settings) -> Iterator[tuple[str, Settings]]:
    """The tables of `[model]` that are a network each, with their paths: itself, or those of its sides."""
    sides = [(f"model.{name}", table) for name, table in model if isinstance(table, Settings)]
    return iter(sides or [("model", model)])


def bounded_networks(model: Settings) -> Iterator[tuple[str, int]]:
    """The paths of the networks that read a limited number of tokens, with that number."""
    for path, table in networks(model):
        longest: int | None = getattr(table, "longest", None)
        if longest is not None:
            yield path, longest


def positions(config: Any) -> int | None:
    """The most tokens that a network of the model can read; None where there is no limit."""
    return min((longest for _, longest in bounded_networks(config.model)), default=None)


def schema(task: str) -> type[Config]:
    """The configuration of one task."""
    return _schema(task, TASKS[task])


@cache
def _schema(name: str, task: type[Task]) -> type[Config]:
    """The configuration of a task; `[decode]` is no part of it where the task writes no text, `[text]` where it reads
    none."""
    sections = task.sections
    decode = Field(default_factory=DecodeConfig, exclude=not task.writes)
    return create_model(
        f"{name.title()}Config",
        __base__=Config,
        __doc__=f"A configuration for {name}.",
        data=(sections.data, ...),
        text=(sections.text, Field(default_factory=sections.text, exclude=not task.reads_text)),
        model=(sections.model, Field(default_factory=dict, validate_default=True)),
        decode=(DecodeConfig, decode),
    )


def writes(task: str) -> bool:
    """Whether the models of a task write text."""
    return TASKS[task].writes


def fields_of(table: type[Settings]) -> dict[str, FieldInfo]:
    """The settings of a table that a file may have."""
    return {name: field for name, field in table.model_fields.items() if not field.exclude}


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
    if written(tree, "train", "start") is None:  # the settings of that run come first
        fill(tree, TYPICAL_DATA, cells=cells)  # reports settings that nothing reads before the data is read
    return tree


def fill(tree: Tree, facts: Facts, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """A value for every setting: the user's own, else the default for data of this size and the device, else the fixed
    default.

    A setting that nothing reads beside the others is an error if the user wrote it, and else has its fixed default.
    """
    task = TASKS[validate(tree, cells=cells, keep_unread=True).task]
    defaults = task.defaults(facts, tree)
    if "steps" in tree.get("train", {}):
        defaults["train"].pop("epochs", None)
    text = defaults.pop("text", {"kind": "char"})
    kind = tree.get("text", {}).get("kind", text["kind"])
    if task.reads_text:
        defaults["text"] = _fit_text(text, tree.get("text", {}), word_defaults(facts.characters))
    if (
        facts.device == "cuda" and task.reads_text and "batch_tokens" in defaults["train"]
    ):  # a model that fits itself has none
        defaults["train"] = fill_gpu(defaults["train"], facts, written=tree.get("train", {}), kind=kind)
    draft = validate(merge(defaults, tree), cells=cells, keep_unread=True)
    for error in draft.all_idle(defaults):
        raise error
    for error in draft.all_idle():
        path = str(error.where).partition(" = ")[0].split(".")
        if written(tree, *path) is None:
            defaults = without(defaults, path)
    return validate(merge(defaults, tree), cells=cells)


def _fit_text(defaults: Tree, written: Mapping[str, Any], words: Tree) -> Tree:
    """The defaults of `[text]`, without those for another kind of token than the person chose, and with those for words
    where the person chose words, also for one side of a pair."""
    if written.get("kind", defaults["kind"]) != defaults["kind"]:
        defaults = words if written["kind"] == "word" else {}
    for side, table in written.items():
        if isinstance(table, Mapping) and table.get("kind") == "word":
            suits = {name: value for name, value in words.items() if name not in written}
            defaults = merge(defaults, {side: suits})
    return defaults


def validate(
    tree: Mapping[str, Any], *, cells: Mapping[str, CellClass] | None = None, keep_unread: bool = False
) -> Config:
    """The tree as a `Config` of its task; raises a ConfigError for the first mistake in it.

    `cells` are a person's own cells by their names in the tree; they are not kept. Settings that nothing reads are an
    error unless `keep_unread` accepts them, as for a run that was trained with them.
    """
    check_values(tree)
    task = tree.get("task")
    if task is None:
        raise ConfigError("is missing", where="task", cure=f"choose from {', '.join(sorted(TASKS))}")
    if not isinstance(task, str) or task not in TASKS:
        raise unknown_task(str(task), where=f'task = "{task}"')
    given = dict(tree)
    if not writes(task) and "decode" in given and not keep_unread:
        raise ConfigError(f"no such setting: {task} writes no text", where="decode", cure="remove it")
    if not TASKS[task].reads_text and "text" in given and not keep_unread:
        raise ConfigError(f"no such setting: {task} reads no text", where="text", cure="remove it")
    try:
        context = {"cells": cells or {}} | (KEEP_UNREAD if keep_unread else {})
        return schema(task).model_validate(given, context=context)
    except ValidationError as error:
        path, names, choice = _locate(error.errors()[0]["loc"], schema(task))
        found = explain(error, path, names)
        if error.errors()[0]["type"] == "extra_forbidden" and (cure := _other_place(path, tree)):
            found = ConfigError(found.what, where=found.where, cure=cure)
        if isinstance(cell := found.__cause__, UnknownCell):
            how = f'--import {cell.name}=FILE.py:CLASS or cells={{"{cell.name}": CLASS}}'
            found = UnknownName(found, "a cell", cell.name, how)
        elif error.errors()[0]["type"] == "union_tag_invalid" and choice is not None:
            found = _unknown_kind(found, choice, error.errors()[0]["ctx"]["tag"])
        raise found from found.__cause__


def _other_place(path: list[str], tree: Mapping[str, Any]) -> str:
    """The cure for a setting that stands elsewhere in the schema."""
    from weft.config.places import suggest_places  # which walks the schema of this file

    return suggest_places(path[-1], tree, written(tree, *path), near=False)


class UnknownName(ConfigError):
    """A name that weft does not have, which may be that of a user's own class: `how` says how to give the class."""

    def __init__(self, error: ConfigError, noun: str, name: object, how: str) -> None:
        near = f"{error.cure} " if error.cure and error.cure.endswith("?") else f"{error.cure}; "
        super().__init__(error.what, where=error.where, cure=f"{near}{noun} of your own comes by {how}")
        self.noun, self.name, self.how = noun, str(name), how


def unknown_task(name: str, *, where: str, what: str = "is not a task") -> UnknownName:
    """The error for a name that is no task."""
    error = ConfigError(what, where=where, cure=did_you_mean(name, TASKS))
    return UnknownName(error, "a task", name, f'--import FILE.py:CLASS or weft.catalog.TASKS["{name}"] = CLASS')


def _unknown_kind(error: ConfigError, choice: OneOf, kind: str) -> ConfigError:
    """The error for a kind of encoder or decoder that is not in its dict; other kinds cannot be imported."""
    arms = ENCODERS if isinstance(choice.arms, HeadedKinds) else choice.arms
    if not any(arms is parts for joined in PARTS.values() for parts in joined):
        return error
    name = next(name for name, parts in CATALOG.items() if parts is arms)
    noun = f"{'an' if name[0] in 'aeiou' else 'a'} {name.removesuffix('s').replace('_', ' ')}"
    how = f'--import FILE.py:CLASS or weft.catalog.{name.upper()}["{kind}"] = CLASS'
    return UnknownName(error, noun, kind, how)


def _locate(location: tuple[int | str, ...], model: type[Settings]) -> tuple[list[str], list[str], OneOf | None]:
    """The path of a finding without pydantic's marks for the arms of a union, the names that are valid there, and the
    choice of tables if there is one."""
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
            return path, list(fields_of(current)), None
        current = table_in(field)
    return path, [], current if isinstance(current, OneOf) else None


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
