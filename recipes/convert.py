"""Turn public files of pairs into the tables that weft reads: train.tsv, valid.tsv and test.tsv.

    python recipes/convert.py cmudict cmudict.dict.xz --out data/cmudict
    python recipes/convert.py scan tasks_train_simple.txt.xz tasks_test_simple.txt.xz --out data/scan
    python recipes/convert.py names names/ --out data/names

A line is put into a part by a hash of its source, so the parts do not depend on the order of the file, and all lines of
one source are in one part.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

PARTS = ("train", "valid", "test")
OPENERS = {".xz": lzma.open, ".gz": gzip.open}


class Line(NamedTuple):
    """A source, its target, and the part of the data that they belong to."""

    part: str
    source: str
    target: str


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file, which may be compressed."""
    with OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def part_of(source: str, *, valid: float, test: float) -> str:
    """The part of a source, by its hash."""
    share = int.from_bytes(hashlib.sha256(source.encode()).digest()[:8], "big") / 2**64
    return "valid" if share < valid else "test" if share < valid + test else "train"


def cmudict(paths: list[Path]) -> Iterator[Line]:
    """Spelling to phones without stress; `word(2)` is another pronunciation of the same word, so another line."""
    for path in paths:
        for line in lines_of(path):
            entry, _, _ = line.partition("#")
            word, *phones = entry.split()
            word = re.sub(r"\(\d+\)$", "", word)
            bare = " ".join(re.sub(r"\d", "", phone) for phone in phones)
            yield Line(part_of(word, valid=0.02, test=0.04), word, bare)


def scan(paths: list[Path]) -> Iterator[Line]:
    """Commands to actions: the first file is for training, with a part set aside, the second is the test."""
    train, test = paths
    for path in (train, test):
        for line in lines_of(path):
            found = re.fullmatch(r"IN: (.*) OUT: (.*)", line.strip())
            if found:
                part = "test" if path == test else part_of(found[1], valid=0.05, test=0.0)
                yield Line(part, found[1], found[2])


def names(paths: list[Path]) -> Iterator[Line]:
    """The language of a name to the name: a file LANGUAGE.txt has a name per line."""
    for path in sorted(file for folder in paths for file in folder.glob("*.txt*")):
        language = path.name.partition(".")[0]
        for line in lines_of(path):
            if line.strip():
                yield Line(part_of(line, valid=0.05, test=0.05), language, line.strip())


SETS = {"cmudict": cmudict, "scan": scan, "names": names}


def write(lines: Iterable[Line], out: Path) -> dict[str, int]:
    """Write a table for each part, without lines that are there already -> their numbers of lines."""
    out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, None]] = {part: {} for part in PARTS}
    for part, source, target in lines:
        rows[part][f"{source}\t{target}\n"] = None
    for part, texts in rows.items():
        (out / f"{part}.tsv").write_text("".join(["source\ttarget\n", *texts]), encoding="utf-8")
    return {part: len(texts) for part, texts in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set", choices=SETS)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    counts = write(SETS[given.set](given.files), given.out)
    print(given.out, *(f"{part} {count:,}" for part, count in counts.items()))


if __name__ == "__main__":
    main()
