"""Sizes of arrays that are known in part: products of numbers and of lengths that the input decides.

In C a length named "source" is a variable `n_source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from weft.export.graph import Size


def identifier(name: str) -> str:
    """A name of a graph as a part of a name in C."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"


def length(name: Size) -> str:
    """A size as an expression of C."""
    return str(name) if isinstance(name, int) else f"n_{identifier(name)}"


def elements(shape: Iterable[Size]) -> str:
    """The number of elements of a shape as an expression of C: the lengths, then one number."""
    shape = list(shape)
    number = prod(size for size in shape if isinstance(size, int))
    names = [length(size) for size in shape if not isinstance(size, int)]
    return " * ".join([*names, *([str(number)] if number != 1 or not names else [])])


def times(*parts: str) -> str:
    """A product of expressions without factors of 1."""
    found = [part for part in parts if part != "1"]
    if "0" in found:
        return "0"
    return " * ".join(f"({part})" if " + " in part else part for part in found) or "1"


def names_of(shape: Sequence[Size]) -> tuple[str, ...]:
    """The lengths in a shape."""
    return tuple(size for size in shape if isinstance(size, str))


def estimate(shape: Iterable[Size]) -> int:
    """The number of elements where every length is 64."""
    return prod(size if isinstance(size, int) else 64 for size in shape)
