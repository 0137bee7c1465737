"""Reads plain text: one text per line, running text, and lines of inputs for predictions."""

from __future__ import annotations

from collections.abc import Iterator
from os import fspath
from pathlib import Path

from weft.data.badlines import BadLines, at_least_one
from weft.data.records import Text
from weft.data.sources import PathLike, Paths, decode, each_path, lines, raw_lines, raw_pieces, without_end
from weft.errors import DataError

BLOCK_CHARACTERS, MIN_BLOCK_CHARACTERS = 1 << 16, 1 << 10
"""The length after which a block of running text ends at the next line end: the first, or in a small file an eighth of
it, but at least the second."""

MIN_BLOCKS = 8
"""Blocks of a small file, so that the last can be held out."""


def read_texts(path: Paths, *, bad: BadLines) -> Iterator[Text]:
    """Yield every line that is not blank, stripped; several files are read one after the other."""
    for name in each_path(path):
        yield from at_least_one(_texts(name, bad), name, bad)


def _texts(name: str, bad: BadLines) -> Iterator[Text]:
    for number, line in lines(name, bad):
        if text := line.strip():
            yield Text(text, f"{name}:{number}")


def read_stream(path: Paths, *, bad: BadLines) -> Iterator[Text]:
    """Yield running text in blocks of about 64 thousand characters, of a small file in blocks of an eighth of it.

    The blocks of a file, joined, are exactly its text, with CRLF as LF. A block ends at a line end; only a line of more
    than a megabyte is cut, after a blank if it has one. The rest at the end is a block of its own if it is at least
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
    """The characters of a block; of a compressed file its size on disk counts."""
    try:
        size = Path(name).stat().st_size if Path(name).is_file() else BLOCK_CHARACTERS * MIN_BLOCKS
    except OSError:
        size = BLOCK_CHARACTERS * MIN_BLOCKS
    return min(BLOCK_CHARACTERS, max(MIN_BLOCK_CHARACTERS, size // MIN_BLOCKS))


def read_whole_text(path: PathLike) -> str:
    """The text of a whole file, with CRLF as LF and without the end of its last line."""
    return "\n".join(read_inputs(path))


def read_inputs(path: PathLike) -> Iterator[str]:
    """Yield every line unchanged, blank ones too, so that output lines match input lines. A file may be empty."""
    name = fspath(path)
    for number, raw in raw_lines(name):
        yield without_end(decode(raw, name, number))
