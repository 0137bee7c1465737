"""The parameters of a model, part by part: shapes, formulas, counts.

    all                       Translator                                                     63,082,632
      encoder.stack.blocks.0–5                                                  3,150,336    18,902,016
        attention             1536×512, 512×512           4·p·H·m               1,048,576     6,291,456

A parameter that two parts share counts once, in the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

from torch import nn

from weft.inspect.formulas import FORMULAS, Formula


class PartRow(NamedTuple):
    """A row of the table: a part, its depth, and how many copies of it the model has."""

    part: Part
    depth: int
    times: int


@dataclass(frozen=True)
class Part:
    """A module with parameters of its own, or with modules that have some."""

    name: str
    """The name in its parent; "0–5" means six equal parts."""
    kind: str
    count: int
    """Parameters of one copy, without those that an earlier part has already."""
    times: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes of its parameters, where it is not divided further."""
    formula: Formula | None = None
    shared: tuple[str, ...] = ()
    """Parameters that it shares with earlier parts."""
    parts: tuple[Part, ...] = ()

    @property
    def total(self) -> int:
        return self.count * self.times

    def rows(self, depth: int = 0, times: int = 1) -> Iterator[PartRow]:
        """Yield this part and all below it, each parent before its parts."""
        yield PartRow(self, depth, times * self.times)
        for part in self.parts:
            yield from part.rows(depth + 1, times * self.times)

    def tree(self) -> dict[str, Any]:
        """Return the part as plain tables, without empty entries."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "count": self.count, "times": self.times}
        if self.formula is not None:
            found |= {"formula": self.formula.text, "sizes": dict(self.formula.sizes)}
        found |= {"shapes": [list(shape) for shape in self.shapes]} if self.shapes else {}
        found |= {"shared": list(self.shared)} if self.shared else {}
        return found | ({"parts": [part.tree() for part in self.parts]} if self.parts else {})


def count_parameters(model: nn.Module) -> Part:
    """Return the whole model as one part; the model may be on the "meta" device."""
    found = _describe(model, "", "", {})
    return found or Part("", type(model).__name__, 0)


def _describe(module: nn.Module, name: str, path: str, seen: dict[int, str]) -> Part | None:
    """Describe a module; None without parameters. `seen` has the path of each earlier parameter, by its id."""
    known = FORMULAS.get(type(module))
    formula = known(module) if known else None
    kind = type(module).__name__
    if formula is not None or any(True for _ in module.parameters(recurse=False)):
        own: list[tuple[str, nn.Parameter]] = []
        shared: list[tuple[str, nn.Parameter]] = []
        for inner, weight in module.named_parameters():
            (shared if id(weight) in seen else own).append((inner, weight))
            seen.setdefault(id(weight), f"{path}.{inner}".lstrip("."))
        shapes = tuple(tuple(weight.shape) for _, weight in own)
        if shared:
            formula = _rest(module, [inner for inner, _ in own])
        others = tuple(seen[id(weight)] for _, weight in shared)
        return Part(name, kind, sum(map(prod, shapes)), shapes=shapes, formula=formula, shared=others)
    found = (_describe(child, inner, f"{path}.{inner}", seen) for inner, child in module.named_children())
    parts = _fold([part for part in found if part is not None])
    if not parts:
        return None
    if len(parts) == 1 and name:
        return replace(parts[0], name=f"{name}.{parts[0].name}")
    return Part(name, kind, sum(part.total for part in parts), parts=tuple(parts))


def _rest(module: nn.Module, own: list[str]) -> Formula | None:
    """Return the formula of a linear map whose matrix belongs to another part: that of its bias."""
    return Formula("b", {"b": module.out_features}) if isinstance(module, nn.Linear) and own == ["bias"] else None


def _fold(parts: list[Part]) -> list[Part]:
    """Join numbered parts that follow each other and are equal into one."""
    folded: list[Part] = []
    for _, group in groupby(parts, key=_likeness):
        alike = list(group)
        first, _, below = alike[0].name.partition(".")
        last = alike[-1].name.partition(".")[0]
        name = ".".join(filter(None, [first if first == last else f"{first}–{last}", below]))
        folded.append(replace(alike[0], name=name, times=alike[0].times * len(alike)))
    return folded


def _likeness(part: Part) -> Part:
    """Return the part without its number."""
    number, _, below = part.name.partition(".")
    return replace(part, name=below) if number.isdigit() else part
