"""The contract of a converter, and the files that it writes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from weft.disk import atomic_write
from weft.errors import ConfigError, DataError, counted

PARTS: Final = ("train", "valid", "test")


class Converted(NamedTuple):
    """A line of a table, or a block of lines, and the part of the data that it belongs to."""

    part: str
    text: str


class Converter(NamedTuple):
    """A format: how its files are read, how many there are, and the files that become of them."""

    summary: str
    read: Callable[..., Iterator[Converted]]
    """Is called with the names of the files, and with `download` if `network` is true."""
    suffix: str = ".tsv"
    header: str = "source\ttarget\n"
    distinct: bool = True
    """Whether a line that is there already is left out."""
    files: tuple[int, int | None] = (1, None)
    """The smallest and the largest number of files."""
    network: bool = False
    """Whether it can read from a network, on request."""


def pair_line(part: str, source: str, target: str, place: str) -> Converted:
    """A row of a table of pairs; neither side may be empty or have a tab."""
    for name, text in (("source", source), ("target", target)):
        if not text or "\t" in text or "\n" in text:
            what = f"the {name} is empty" if not text else f"the {name} has a tab or a line end"
            raise DataError(what, where=place, cure="correct the line, or remove it")
    return Converted(part, f"{source}\t{target}\n")


def part_of(source: str, *, valid: float, test: float) -> str:
    """The part of a source, by its hash."""
    share = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") / 2**64
    return "valid" if share < valid else "test" if share < valid + test else "train"


def convert(converter: Converter, files: list[str], out: Path) -> dict[Path, int]:
    """Write a table for each part that has lines; returns the number of lines of each. Nothing is written on errors."""
    least, most = converter.files
    if len(files) < least or (most is not None and len(files) > most):
        wanted = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        what = f"{counted(len(files), 'file')} where {wanted} {'is' if wanted == '1' else 'are'} expected"
        raise ConfigError(what, where="FILES", cure=converter.summary)
    rows: dict[str, list[str]] = {}
    seen: dict[str, set[str]] = {}
    for part, text in converter.read(files):
        if not converter.distinct or text not in seen.setdefault(part, set()):
            rows.setdefault(part, []).append(text)
            seen.setdefault(part, set()).add(text)
    if not rows:
        raise DataError("no examples found", where=", ".join(files), cure=converter.summary)
    for part in rows:
        if os.path.lexists(path := out / f"{part}{converter.suffix}"):
            raise ConfigError("is there already", where=str(path), cure="choose another --out")
    counts = {}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for part, texts in sorted(rows.items(), key=lambda item: ([*PARTS, item[0]].index(item[0]), item[0])):
            path = out / f"{part}{converter.suffix}"
            atomic_write(path, "".join([converter.header, *texts]).encode())
            counts[path] = len(texts)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(out), cure="choose another --out") from None
    return counts
