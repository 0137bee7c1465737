"""Sentences of CoNLL-U: ten columns separated by tabs, comments that begin with #."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from weft.errors import DataError, counted

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_ANNOTATIONS = ("upos", "xpos", "head", "deprel")
"""Columns in which _ means a missing annotation; in other columns _ is a value."""

_TOKEN_NUMBER = re.compile(r"\d+([-.]\d+)?")

NumberedLines: TypeAlias = Sequence[tuple[int, str]]
WordsAndTags: TypeAlias = tuple[list[str], list[str]]


def is_token_line(line: str) -> bool:
    """Whether a line is certainly a token of CoNLL-U."""
    cells = line.split("\t")
    return len(cells) == len(COLUMNS) and _TOKEN_NUMBER.fullmatch(cells[0]) is not None


def parse_conllu(sentence: NumberedLines, *, name: str, field: str) -> WordsAndTags:
    """Return words and the column `field`; multiword tokens (3-4) and empty nodes (5.1) are skipped."""
    from conllu import parse_token_and_metadata
    from conllu.exceptions import ParseException

    tokens = [(number, line) for number, line in sentence if not line.startswith("#")]
    for number, line in tokens:
        check_columns(line, f"{name}:{number}")
    if not tokens:
        return [], []
    try:
        text = "\n".join(line for _, line in tokens)
        parsed = parse_token_and_metadata(text, fields=COLUMNS, field_parsers=dict.fromkeys(COLUMNS[1:], _as_it_is))
    except ParseException as error:
        raise DataError(f"not CoNLL-U: {error}", where=f"{name}:{tokens[0][0]}", cure="mend this sentence") from None
    words, tags = [], []
    for (number, _), token in zip(tokens, parsed, strict=True):
        if isinstance(token["id"], int):
            words.append(token["form"])
            tags.append(token[field])
            if field in _ANNOTATIONS and tags[-1] == "_":
                cure = f"fill it in, or choose another field than {field}"
                raise DataError(f'"{words[-1]}" has no {field}', where=f"{name}:{number}", cure=cure)
    return words, tags


def check_columns(line: str, place: str) -> None:
    """Raise a DataError for a token line that is not valid CoNLL-U."""
    cells = line.split("\t")
    if len(cells) != len(COLUMNS):
        what = f"{counted(len(cells), 'column')} where CoNLL-U has {len(COLUMNS)}"
        raise DataError(what, where=place, cure="separate the columns by single tabs; _ stands for nothing")
    if not all(cell.strip() for cell in cells):
        raise DataError("a column is empty", where=place, cure="_ stands for nothing in CoNLL-U")
    # The parser splits at two blanks too, so they would shift every later column.
    if "  " in line:
        raise DataError("two blanks inside a column", where=place, cure="CoNLL-U allows one blank at most")


def _as_it_is(cells: list[str], position: int) -> str:
    return cells[position]
