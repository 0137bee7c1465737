"""So many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """`size` items at a time, in their order; fewer only at the very end."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
