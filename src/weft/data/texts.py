"""Plain text: one text per line, running text, and the lines somebody wants predictions for."""

from __future__ import annotations

from collections.abc import Iterator
from os import fspath
from pathlib import Path

from weft.data.badlines import BadLines, at_least_one
from weft.data.records import Text
from weft.data.sources import PathLike, Paths, decode, each_path, lines, raw_lines, raw_pieces, without_end
from weft.errors import DataError

BLOCK, SMALLEST_BLOCK = 1 << 16, 1 << 10
"""Characters after which a block of running text ends at the next line end; in a small file after an eighth of it, but
not before the second."""

BLOCKS = 8
"""Blocks that a small file comes in, so that the last can be set aside."""


def read_texts(path: Paths, *, bad: BadLines) -> Iterator[Text]:
    """Every line that is not blank, without the blanks at its ends; several files follow one another."""
    for name in each_path(path):
        yield from at_least_one(_texts(name, bad), name, bad)


def _texts(name: str, bad: BadLines) -> Iterator[Text]:
    for number, line in lines(name, bad):
        if text := line.strip():
            yield Text(text, f"{name}:{number}")


def read_stream(path: Paths, *, bad: BadLines) -> Iterator[Text]:
    """Running text in blocks of about 64 thousand characters, in a small file of an eighth of it.

    Joined, the blocks of a file are its text to the letter, with CRLF as LF. A block ends at a line end; only a line of
    more than a megabyte is cut, after a blank where it has one. What is left at the end is a block of its own if it is
    half as long as the others.
    """
    for name in each_path(path):
        yield from at_least_one(_blocks(name, bad), name, bad)


def _blocks(name: str, bad: BadLines) -> Iterator[Text]:
    limit = _block_size(name)
    before: Text | None = None
    parts: list[str] = []
    size, start = 0, 1
    for number, raw in raw_pieces(name):
        try:
            text = decode(raw, name, number)
        except DataError as error:
            bad.report(error)
            continue
        if not parts:
            start = number
        if text[-2:] == "\r\n":
            text = f"{text[:-2]}\n"
        parts.append(text)
        size += len(text)
        if size >= limit:
            if before is not None:
                yield before
            before = Text("".join(parts), f"{name}:{start}")
            parts, size = [], 0
    if before is not None and 0 < size < limit / 2:
        before, parts = Text("".join([before.text, *parts]), before.place), []
    if before is not None:
        yield before
    if parts:
        yield Text("".join(parts), f"{name}:{start}")


def _block_size(name: str) -> int:
    """Characters of a block; compressed, a file counts as what it is on the disk."""
    try:
        size = Path(name).stat().st_size if Path(name).is_file() else BLOCK * BLOCKS
    except OSError:
        size = BLOCK * BLOCKS
    return min(BLOCK, max(SMALLEST_BLOCK, size // BLOCKS))


def read_inputs(path: PathLike) -> Iterator[str]:
    """Every line as it stands, blank ones too: one line in, one line out. An empty file is no error here."""
    name = fspath(path)
    for number, raw in raw_lines(name):
        yield without_end(decode(raw, name, number))
