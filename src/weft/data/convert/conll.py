"""CoNLL files of shared tasks become two columns, the word and its tag, with an empty line between sentences.

| files                                                | word and tag                                            |
|------------------------------------------------------|---------------------------------------------------------|
| columns with blanks: 2000 chunks, 2002 and 2003 names | the first column and the last; IOB1 becomes IOB2        |
| CoNLL-X (10 columns with tabs), CoNLL 2009 (14 or more) | the form, and the part of speech: column 4, or 5 of 2009 |

Lines of documents (-DOCSTART-) and comments are left out. The files are for train, valid and test, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.data.badlines import BadLines, at_least_one
from weft.data.convert.contract import PARTS, Converted, Converter
from weft.data.sources import lines
from weft.errors import DataError

X_COLUMNS, COLUMNS_2009 = 10, 14
DOCUMENT = "-DOCSTART-"
BLANKS = re.compile(r"[ \t]+")
"""The space between two columns; other blanks of Unicode may stand inside a word."""

IOB = re.compile(r"O|[BI]-\S+")
"""A tag of an entity or a chunk."""

Tagged = list[tuple[str, str]]


def read(files: list[str]) -> Iterator[Converted]:
    for part, name in zip(PARTS, files, strict=False):
        for sentence in at_least_one(_sentences(name), name, BadLines()):
            yield Converted(part, _block(sentence))


def _sentences(name: str) -> Iterator[Tagged]:
    sentence: Tagged = []
    columns: int | None = None
    for number, line in lines(name, BadLines()):
        if not line.strip():
            if sentence:
                yield sentence
            sentence = []
            continue
        cells = _cells(line, (columns or 0) if sentence else 0)
        if cells is None:
            continue
        place, columns = f"{name}:{number}", columns or len(cells)
        if len(cells) != columns:
            what = f"{len(cells)} columns, where the lines before it have {columns}"
            raise DataError(what, where=place, cure="correct the line, or remove it")
        sentence.append(_word(cells, place))
    if sentence:
        yield sentence


def _cells(line: str, columns: int) -> list[str] | None:
    """The columns of a line; None of a comment, a document's line, or a token of several words.

    A sign # is a word, such as the pound of CoNLL 2000, where the tag of an entity or a chunk ends its line, or within
    a sentence whose lines have as many columns, from three on.
    """
    cells = line.split("\t")
    if len(cells) >= X_COLUMNS and cells[0][:1].isdigit():
        return cells if cells[0].isdecimal() else None
    cells = BLANKS.split(line.strip(" \t"))
    word = len(cells) > 1 and (IOB.fullmatch(cells[-1]) is not None or len(cells) == columns > 2)
    comment = line.startswith("# ") and not word
    return None if comment or line.startswith(DOCUMENT) or line.strip() == "#" else cells


def _word(cells: list[str], place: str) -> tuple[str, str]:
    """The word and the tag of a line."""
    if len(cells) < 2:
        cure = "a line is a word and its tag, with columns of others between them"
        raise DataError("one column where a word and a tag are expected", where=place, cure=cure)
    word, tag = cells[0], cells[-1]
    if len(cells) >= X_COLUMNS and cells[0].isdecimal():
        word, tag = cells[1], cells[4 if len(cells) >= COLUMNS_2009 else 3]
    if not word.strip() or not tag.strip():
        raise DataError("a word or a tag is empty", where=place, cure="fill it in")
    return "_".join(word.split()), tag.strip()


def _block(sentence: Tagged) -> str:
    tags = to_iob2([tag for _, tag in sentence])
    return "".join(f"{word} {tag}\n" for (word, _), tag in zip(sentence, tags, strict=True)) + "\n"


def to_iob2(tags: list[str]) -> list[str]:
    """Let each entity begin with B: in IOB1 it begins with I where no other of its type ends before it."""
    if not all(tag == "O" or tag[:2] in ("B-", "I-") for tag in tags):
        return tags
    before, found = "O", []
    for tag in tags:
        begins = tag[:2] == "I-" and before[2:] != tag[2:]
        found.append(f"B-{tag[2:]}" if begins else tag)
        before = tag
    return found


CONLL = Converter(
    "files of CoNLL 2000, 2002, 2003, X or 2009, for train, valid and test",
    read,
    suffix=".conll",
    header="",
    distinct=False,
    files=(1, 3),
)
