"""SCAN: commands to actions. The first file is for training, with a part set aside; the second is the test."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.data.badlines import BadLines, at_least_one
from weft.data.convert.contract import Converted, Converter, pair_line, part_of
from weft.data.sources import lines
from weft.errors import DataError


def read(files: list[str]) -> Iterator[Converted]:
    for name, own in zip(files, (None, "test"), strict=True):
        yield from at_least_one(_rows(name, own), name, BadLines())


def _rows(name: str, own: str | None) -> Iterator[Converted]:
    """The rows of a file, all of one part, or divided into training and validation."""
    for number, line in lines(name, BadLines()):
        if not line.strip():
            continue
        found = re.fullmatch(r"IN: (.*) OUT: (.*)", line.strip())
        if found is None:
            cure = "a line is: IN: jump twice OUT: I_JUMP I_JUMP"
            raise DataError("no command with its actions", where=f"{name}:{number}", cure=cure)
        part = own or part_of(found[1], valid=0.05, test=0.0)
        yield pair_line(part, found[1], found[2], f"{name}:{number}")


SCAN = Converter("two files of SCAN, for training and for the test: IN: … OUT: …", read, files=(2, 2))
