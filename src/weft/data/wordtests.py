"""Files that test word vectors: pairs of words with a similarity, and analogies. They are recognised by their content.

similarities    word TAB word TAB score                     WordSim-353, SimLex-999, MEN
analogies       : section                                   questions-words.txt of word2vec
                Athens Greece Baghdad Iraq                  a is to b as c is to d
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from weft.data.badlines import BadLines, at_least_one
from weft.data.records import Analogy, Similarity
from weft.data.sources import STDIN, Paths, each_path, lines
from weft.errors import DataError

ANALOGY: Final = "give four words: a is to b as c is to d"
SIMILARITY: Final = "give a word, a word and a number, separated by tabs"


def read_with_tests(path: Paths, bad: BadLines, read_text: Callable[[str], Iterator[Any]]) -> Iterator[Any]:
    """Yield the records of files: similarities and analogies of those that have them, and else those of `read_text`."""
    for name in each_path(path):
        reader = None if name == STDIN else _reader_of(name)
        yield from read_text(name) if reader is None else at_least_one(reader(name, bad), name, bad)


def _reader_of(name: str) -> Callable[[str, BadLines], Iterator[Any]] | None:
    """The reader of a file of word tests; None for other files."""
    every = lines(name, BadLines(skip=True))
    first = next((line for _, line in every if line.strip()), "")
    if re.fullmatch(r":\s*\S+", first.strip()):
        return _analogies
    second = next((line for _, line in every if line.strip()), "")
    # The first line may be a header.
    return _similarities if any(_similarity(line) for line in (first, second)) else None


def _similarity(line: str) -> tuple[str, str, float] | None:
    """The words and the score of a line; None if it has none."""
    fields = [field.strip() for field in line.strip().split("\t")]
    if len(fields) != 3:
        return None
    first, second, score = fields
    try:
        number = float(score)
    except ValueError:
        return None
    plain = first.split() == [first] and second.split() == [second]
    return (first, second, number) if plain and math.isfinite(number) else None


def _similarities(name: str, bad: BadLines) -> Iterator[Similarity]:
    for number, line in lines(name, bad):
        found = _similarity(line)
        if found is not None:
            yield Similarity(*found, f"{name}:{number}")
        elif line.strip() and number > 1:
            bad.report(DataError("is not a pair of words with a score", where=f"{name}:{number}", cure=SIMILARITY))


def _analogies(name: str, bad: BadLines) -> Iterator[Analogy]:
    section = ""
    for number, line in lines(name, bad):
        words = line.split()
        if words[:1] == [":"] or (len(words) == 1 and line.startswith(":")):
            section = line.strip().removeprefix(":").strip()
        elif len(words) == 4:
            yield Analogy(tuple(words), section, f"{name}:{number}")
        elif words:
            bad.report(DataError(f"is no analogy: {len(words)} words", where=f"{name}:{number}", cure=ANALOGY))
