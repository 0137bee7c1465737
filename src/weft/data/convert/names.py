"""Names by language: a folder with a file LANGUAGE.txt for each, a name per line, becomes pairs of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.data.badlines import BadLines
from weft.data.convert.contract import Converted, Converter, pair_line, part_of
from weft.data.sources import lines
from weft.errors import DataError


def read(files: list[str]) -> Iterator[Converted]:
    for folder in files:
        found = sorted(Path(folder).glob("*.txt*"))
        if not found:
            raise DataError("no files LANGUAGE.txt in it", where=folder, cure="name a folder with a file per language")
        for path in found:
            language = path.name.partition(".")[0]
            for number, line in lines(str(path), BadLines()):
                if line.strip():
                    part = part_of(line, valid=0.05, test=0.05)
                    yield pair_line(part, language, line.strip(), f"{path}:{number}")


NAMES = Converter("folders with a file LANGUAGE.txt for each language, a name per line", read)
