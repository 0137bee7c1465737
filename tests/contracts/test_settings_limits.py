"""Every number of every task and kind has a limit, far above what anybody trains and below what hurts.

The walk goes over the schema; what may be a number is found out from its type, also inside of unions, lists, cells and
kinds of teacher forcing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import pytest
from annotated_types import Le, Lt
from pydantic.fields import FieldInfo

from weft import limits
from weft.catalog import CELLS, TASKS
from weft.config import merge, validate
from weft.config.schema import fields_of, schema, table_in
from weft.config.tree import nest
from weft.errors import ConfigError
from weft.models import SPELLERS
from weft.nn import options_of
from weft.settings import OneOf, Settings
from weft.training.forcing import FORCINGS

COLUMNS = (
    "data.text",
    "data.image",
    "data.caption",
    "data.label",
    "data.source",
    "data.target",
    "data.pair",
    "data.features",
    "data.sequence",
    "data.language",
)
TABLES = ("train.class_weights",)
"""Settings that are a table of numbers by names of the data."""
LISTS = ("model.quantiles",)
"""Settings that are always a list."""
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


class Leaf(NamedTuple):
    """A setting that may be a number: its path, a tree with the kinds above it, and its upper bounds."""

    task: str
    path: str
    kinds: dict[str, Any]
    bounds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.task}-{self.path}-{self.kinds.get('kind', '')}"


def numbers_in(kind: Any, marks: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The marks of each int or float in a type."""
    if get_origin(kind) is Annotated:
        inner, *own = get_args(kind)
        own = [mark for one in own for mark in (one.metadata if isinstance(one, FieldInfo) else [one])]
        yield from numbers_in(inner, (*marks, *own))
    elif kind in (int, float):
        yield marks
    elif get_origin(kind) is not None:
        for part in get_args(kind):
            yield from numbers_in(part, marks)


def leaf(task: str, path: str, kinds: dict[str, Any], kind: Any, marks: tuple[Any, ...] = ()) -> Iterator[Leaf]:
    for found in numbers_in(kind, marks):
        bounds = tuple(mark.le if isinstance(mark, Le) else mark.lt for mark in found if isinstance(mark, Le | Lt))
        yield Leaf(task, path, kinds, bounds)


def leaves(task: str, table: type[Settings], path: str = "", kinds: dict[str, Any] | None = None) -> Iterator[Leaf]:
    for name, field in fields_of(table).items():
        here, inner, kinds = f"{path}{name}", table_in(field), kinds or {}
        if isinstance(inner, OneOf):
            for kind, arm in inner.arms.items():
                yield from leaves(task, arm, f"{here}.", {**kinds, f"{here}.kind": kind})
        elif inner is not None:
            yield from leaves(task, inner, f"{here}.", kinds)
        elif name == "cell":
            for cell in CELLS:
                for option, its in options_of(CELLS[cell]).items():
                    yield from leaf(task, f"{here}.{option}", {**kinds, f"{here}.kind": cell}, its.kind)
        elif name == "teacher_forcing":
            for kind, arm in FORCINGS.items():
                needed = {f"{here}.k": 0.5} if "k" in arm.model_fields else {}
                yield from leaves(task, arm, f"{here}.", {f"{here}.kind": kind, **needed})
        elif name == "characters":
            yield from leaf(task, here, kinds, field.annotation, tuple(field.metadata))
            for kind, arm in SPELLERS.items():
                yield from leaves(task, arm, f"{here}.", {**kinds, f"{here}.kind": kind})
        elif here in COLUMNS and task != "forecast":  # whose columns always have names
            yield Leaf(task, here, kinds, (limits.COLUMN,))  # checked by a function of its own
        else:
            yield from leaf(task, here, kinds, field.annotation, tuple(field.metadata))


LEAVES = [found for task in TASKS for found in leaves(task, schema(task))]


def test_the_walk_finds_the_numbers():
    found = {leaf.path for leaf in LEAVES}
    assert {"seed", "train.rate", "train.teacher_forcing.k", "model.cell.forget_bias", "model.hidden"} <= found
    assert {"model.encoder.embedding", "model.decoder.max_positions", "text.source.size", "decode.beam"} <= found
    assert len(LEAVES) > 150


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_a_number_has_a_limit(leaf):
    assert leaf.bounds, f"{leaf.path} has no upper limit: use a type of weft/settings.py, or le=limits.…"
    assert any(bound in vars(limits).values() or bound == 1 for bound in leaf.bounds), "limits stand in weft/limits.py"


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_what_is_above_it_is_refused_by_its_path(leaf):
    tree: dict[str, Any] = {"task": leaf.task, "data": {"train": "no.tsv"}}
    large: Any = {"a": 10**30} if leaf.path in TABLES else [1e30] if leaf.path in LISTS else 10**30
    for path, value in {**leaf.kinds, leaf.path: large}.items():
        tree = merge(tree, nest(path, value))
    with pytest.raises(ConfigError, match=rf"^{re.escape(leaf.path)}\b.*(limit|less than)"):
        validate(tree)


def test_real_models_are_within_the_limits():
    """The sizes of the largest models that were trained and told of."""
    largest = {"layers": 126, "width": 16_384, "heads": 128, "feedforward": 53_248, "max_positions": 131_072}
    tree = {
        "task": "lm",
        "data": {"train": "no.txt", "max_length": 131_072},
        "text": {"size": 262_144},
        "model": {"kind": "transformer", "positions": "learned", **largest},
        "train": {"batch_tokens": 4_194_304, "steps": 10_000_000, "accumulate": 1024, "threads": 512},
        "decode": {"beam": 200, "sample": False, "max_length": 32_768},
    }
    assert validate(tree).model.layers == 126
    assert validate({"task": "lm", "data": {"train": "no.txt"}, "text": {"kind": "word", "size": 1_000_000}})


def test_the_table_of_limits_in_the_docs_is_that_of_the_schema():
    rows = re.findall(r"^\| (`[^|]+) \| ([\d,]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = {name: int(limit.replace(",", "")) for names, limit in rows for name in re.findall(r"`([\w.]+)`", names)}
    wanted: dict[str, int] = {}
    for leaf in LEAVES:
        bound = int(min(leaf.bounds))
        name = leaf.path if leaf.path in told else leaf.path.rpartition(".")[2]
        if bound > 1:
            wanted[name] = bound
    assert told == wanted
