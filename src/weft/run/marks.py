"""Marks of data: hashes by which a run that goes on notices that its data is not what it was."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import numpy as np

from weft.data import Examples, Ragged
from weft.run.preparation import Prepared

PART: Final = 1 << 20
"""Tokens that are hashed at once; marks of checkpoints from before all of them were hashed end after the first part."""

ALL: Final = "all:"
"""What a mark of all tokens begins with."""

MARKED: Final = ("known", "train", "valid", "test")
"""What a mark has a hash of: what tokenizers and labels know, and the parts of the data."""


def mark(prepared: Prepared) -> str:
    """Hashes by which other data is noticed, one for each of `MARKED`: of vocabularies and labels; and of all lengths
    and tokens of each part, with the texts that answers are compared with, which may differ where their tokens do not.
    """
    return ALL + ":".join([_mark_known(prepared).hexdigest(), *map(_mark_part, _parts(prepared))])


def changed_data(before: str, prepared: Prepared) -> str:
    """Which of the files differ from those of a mark; empty if none does."""
    if not before.startswith(ALL):
        return "" if before == _old_mark(prepared) else "the files"
    old, new = (found.removeprefix(ALL).split(":") for found in (before, mark(prepared)))
    if len(old) != len(new):
        return "the files"
    changed = [name for name, *both in zip(MARKED, old, new, strict=True) if both[0] != both[1]]
    if {"known", "train"} & set(changed):  # the tokens of the others may differ for no other reason
        changed = ["train"]
    data = prepared.config.data
    paths = {f"data.{name}": getattr(data, name) or data.train for name in changed}
    return ", ".join(f"{name} = {json.dumps(path, ensure_ascii=False)}" for name, path in paths.items())


def _parts(prepared: Prepared) -> tuple[Examples | None, ...]:
    return prepared.train, prepared.valid, prepared.test


def _mark_known(prepared: Prepared) -> hashlib._Hash:
    codec = prepared.task.codec
    known = [tokenizer.tokens(range(len(tokenizer))) for tokenizer in codec.tokenizers.values()]
    return hashlib.sha256(json.dumps([known, codec.labels]).encode())


def _mark_part(examples: Examples | None) -> str:
    found = hashlib.sha256()
    for name, column in sorted(examples.columns.items()) if examples else ():
        _mark_column(found, name, column, column.size)
    for record in (examples.records or ()) if examples else ():
        found.update(json.dumps(record.sides).encode())
    return found.hexdigest()


def _mark_column(found: hashlib._Hash, name: str, column: Ragged, size: int) -> None:
    found.update(name.encode())
    for start in range(0, len(column), PART):  # in parts: one length may stand for all, and is no array
        found.update(np.ascontiguousarray(column.lengths[start : start + PART]).data)
    for start in range(0, size, PART):
        found.update(column.flat(start, start + PART).data)


def _old_mark(prepared: Prepared) -> str:
    """The mark of checkpoints that have one for all, of no more than the first million tokens of each column."""
    found = _mark_known(prepared)
    for examples in _parts(prepared):
        for name, column in sorted(examples.columns.items()) if examples else ():
            _mark_column(found, name, column, PART)
    return found.hexdigest()
