"""Answers: what they hold is counted, and large ones are written as JSON in parts, with other requests between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import torch
from starlette.responses import Response

from weft.documents import to_json

SINGLE: Final = frozenset((str, int, float, bool, type(None)))
"""Types of values that are counted as one."""

PART_VALUES: Final = 20_000
"""Numbers and texts that are written without a pause: some milliseconds."""


def count_values(value: Any) -> int:
    """Return how many numbers and texts a result holds."""
    if type(value) in SINGLE:
        return 1
    if isinstance(value, list | tuple):
        return sum([1 if type(one) in SINGLE else count_values(one) for one in value])
    if isinstance(value, Mapping):
        return count_values(list(value.values()))
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, np.ndarray):
        return value.size
    kind: Any = type(value)
    size = sum([count_values(getattr(value, name)) for name in _field_names(kind)])
    return max(1, size)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a data class; of any other none."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


async def answer_json(value: Any) -> Response:
    """Return a response of JSON; the event loop serves others while a large one is written."""
    parts = []
    for part in json_parts(value):
        parts.append(part)
        await asyncio.sleep(0)
    return Response("".join(parts).encode(), media_type="application/json")


def json_parts(value: Any) -> Iterator[str]:
    """Yield the JSON of a value in parts of about `PART_VALUES` numbers and texts."""
    size = count_values(value)
    if size <= PART_VALUES:
        yield to_json(value)
    elif isinstance(value, Mapping):
        for number, (name, one) in enumerate(value.items()):
            yield f"{', ' if number else '{'}{to_json(name)}: "
            yield from json_parts(one)
        yield "}"
    else:
        each = max(1, len(value) * PART_VALUES // size)
        for first in range(0, len(value), each):
            some = value[first : first + each]
            yield ", " if first else "["
            yield from json_parts(some[0]) if len(some) == 1 else (to_json(some)[1:-1],)
        yield "]"
