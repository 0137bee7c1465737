"""A config file to start from: the required settings, and every other setting with its default and its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from weft.catalog import TASKS
from weft.config.schema import TYPICAL_DATA, fields_of, schema, table_in, validate
from weft.config.tree import merge, to_toml_value
from weft.models import FittedSettings
from weft.nn import ChosenCell
from weft.settings import OneOf, Settings

EMPTY: Mapping[str, str] = MappingProxyType({})


def template(task: str, *, kind: str | None = None) -> str:
    """A commented config file for a task, with networks of that kind."""
    files = dict(zip(("train", "valid", "test"), TASKS[task].files, strict=True))
    model = schema(task)
    written = {"task": task, "data": files} | ({} if kind is None else _choose(model, kind))
    validate(written)
    defaults = merge(TASKS[task].defaults(TYPICAL_DATA, written), written)
    head = [
        f"# {TASKS[task].summary[0].upper()}{TASKS[task].summary[1:]}. Train with: weft train THIS_FILE",
        "# Lines that start with # show defaults; some depend on the size of the data (see `weft config fill`).",
        f'task = "{task}"',
        *_settings(model, defaults, skip={"task"}),
    ]
    return "\n".join([*head, *_tables(model, defaults, (), chosen=kind)]) + "\n"


def _choose(model: type[Settings], kind: str) -> dict[str, Any]:
    """The tree that names this kind wherever there is a choice."""
    tree: dict[str, Any] = {}
    tables = {name: table_in(field) for name, field in fields_of(model).items()}
    known = any(isinstance(table, OneOf) and kind in table.arms for table in tables.values())
    for name, table in tables.items():
        if known and isinstance(table, OneOf) and kind not in table.arms:
            continue  # a side without such networks keeps its own
        if isinstance(table, OneOf) and kind not in table.arms and (inner := _choose(table.arms[table.default], kind)):
            below = inner  # the sides of a translator have kinds of their own
        else:
            below = {"kind": kind} if isinstance(table, OneOf) else _choose(table, kind) if table else {}
        if below:
            tree[name] = below
    return tree


def _tables(
    model: type[Settings], defaults: Mapping[str, Any], path: tuple[str, ...], *, chosen: str | None
) -> Iterator[str]:
    """The lines of all tables below a path; a kind that was chosen is written, others are shown in comments."""
    for name, field in fields_of(model).items():
        table = table_in(field)
        if table is None:
            continue
        below, notes, active = defaults.get(name, {}), {}, {"train", "valid", "test"} if name == "data" else set()
        if isinstance(table, OneOf):
            kind = table.kind_of(below)
            hint = "; each has settings of its own: weft new TASK --kind KIND" * (
                chosen is None or chosen in table.arms
            )
            notes["kind"] = f"({', '.join(table.arms)}{hint})"
            if chosen is not None:
                active = {"kind"}
            table = table.arms[kind]
        yield ""
        yield f"[{'.'.join((*path, name))}]"
        skip = set(_unused_train(model, defaults)) if name == "train" else set()
        yield from _settings(table, below, active=active, skip=skip, notes=notes)
        yield from _tables(table, below, (*path, name), chosen=chosen)


def _unused_train(model: type[Settings], defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of `[train]` that nothing reads with the kind of model."""
    choice = table_in(fields_of(model)["model"])
    chosen = choice.arms[choice.kind_of(defaults.get("model"))] if isinstance(choice, OneOf) else choice
    return chosen.unused_train if chosen is not None and issubclass(chosen, FittedSettings) else ()


def _settings(
    model: type[Settings],
    defaults: Mapping[str, Any],
    *,
    active: Set[str] = frozenset(),
    skip: Set[str] = frozenset(),
    notes: Mapping[str, str] = EMPTY,
) -> Iterator[str]:
    """A line for each setting that is not a table: a setting if it is in `active`, else a comment."""
    for name, field in fields_of(model).items():
        if name in skip or table_in(field) is not None:
            continue
        value = defaults.get(name, field.get_default(call_default_factory=True, validated_data=dict(defaults)))
        if isinstance(value, ChosenCell):
            value = value.kind  # its options are at their defaults
        shown = "…" if value is None else to_toml_value(value)
        line = f"{'' if name in active else '# '}{name} = {shown}"
        meaning = " ".join(part for part in (field.description, choices(field.annotation), notes.get(name)) if part)
        yield f"{line:<35} # {meaning}" if meaning else line


def choices(annotation: Any) -> str:
    """The values of a setting that has a few fixed ones."""
    for kind in (annotation, *get_args(annotation)):
        if get_origin(kind) is Literal and len(get_args(kind)) > 1:
            return f"({', '.join(map(str, get_args(kind)))})"
    return ""
