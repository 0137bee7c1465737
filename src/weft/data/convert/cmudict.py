"""CMUdict: spelling to phones without stress; `word(2)` is another pronunciation of the same word, so another line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.data.badlines import BadLines
from weft.data.convert.contract import Converted, Converter, pair_line, part_of
from weft.data.sources import lines
from weft.errors import DataError


def read(files: list[str]) -> Iterator[Converted]:
    for name in files:
        for number, line in lines(name, BadLines()):
            word, *phones = line.partition("#")[0].split() or [""]
            if line.startswith(";;;") or (not word and "#" in line):
                continue
            word = re.sub(r"\(\d+\)$", "", word)
            bare = " ".join(re.sub(r"\d", "", phone) for phone in phones)
            if not word or not bare:
                cure = "a line is a word and its phones, such as: cat K AE1 T"
                raise DataError("no word with phones", where=f"{name}:{number}", cure=cure)
            yield pair_line(part_of(word, valid=0.02, test=0.04), word, bare, f"{name}:{number}")


CMUDICT = Converter("a CMUdict file: cat K AE1 T", read)
