"""Reads sentences with one tag per word: CoNLL-U, or columns with an empty line between sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TypeAlias

from weft.data.badlines import BadLines, at_least_one
from weft.data.columns import list_columns
from weft.data.conllu import COLUMNS, NumberedLines, WordsAndTags, is_token_line, parse_conllu
from weft.data.records import Tagged
from weft.data.sources import Paths, decode, each_path, raw_lines, suffix, without_end
from weft.errors import ConfigError, DataError, did_you_mean

Group: TypeAlias = list[tuple[int, bytes]]
Parse: TypeAlias = Callable[[NumberedLines], WordsAndTags]

_BLANKS = re.compile("[ \t]+")


def read_tagged(path: Paths, *, field: str = "upos", column: int | None = None, bad: BadLines) -> Iterator[Tagged]:
    """Yield the sentences of files with one token per line.

    CoNLL-U is recognised by the suffix `.conllu` or by ten columns that begin with a token number; its tag is the
    column called `field`, or number `column`. In any other file the word is column 0 and the tag is `column`, or the
    last column.
    """
    if field not in COLUMNS:
        raise ConfigError(f'"{field}" is no column of CoNLL-U', where="data.field", cure=did_you_mean(field, COLUMNS))
    for name in each_path(path):
        yield from at_least_one(_read_sentences(name, field, column, bad), name, bad)


def _read_sentences(name: str, field: str, column: int | None, bad: BadLines) -> Iterator[Tagged]:
    groups = _groups(name)
    leading, sample = _until_sample(groups)
    parse = _choose(name, sample, field, column)
    for group in chain(leading, groups):
        try:
            words, tags = parse([(number, without_end(decode(raw, name, number))) for number, raw in group])
        except DataError as error:
            bad.report(error)
            continue
        if words:
            yield Tagged(tuple(words), tuple(tags), f"{name}:{group[0][0]}")


def _groups(name: str) -> Iterator[Group]:
    """Yield groups of lines up to an empty one. They stay raw, so that a bad line skips its whole sentence."""
    group: Group = []
    for number, raw in raw_lines(name):
        if raw.strip():
            group.append((number, raw))
        elif group:
            yield group
            group = []
    if group:
        yield group


def _until_sample(groups: Iterator[Group]) -> tuple[list[Group], str]:
    """Return the groups up to the first line that is no comment, and that line, which shows the format."""
    leading: list[Group] = []
    for group in groups:
        leading.append(group)
        for _, raw in group:
            if not raw.startswith(b"#"):
                return leading, without_end(raw.decode("utf-8", errors="replace"))
    return leading, ""


def _choose(name: str, sample: str, field: str, column: int | None) -> Parse:
    if suffix(name) == ".conllu" or is_token_line(sample):
        if column is not None and not 0 <= column < len(COLUMNS):
            raise ConfigError(f"{column} is no column of CoNLL-U", where="data.column", cure="choose from 0 to 9")
        return partial(parse_conllu, name=name, field=field if column is None else COLUMNS[column])
    if column is None and field != "upos":
        what = f'"{field}" needs CoNLL-U, and {name} is not'
        raise ConfigError(what, where="data.field", cure="set data.column, counted from zero")
    tabs = "\t" in sample
    width = max(2, len(_cells(sample, tabs=tabs))) if column is None else None
    return partial(_parse_columns, name=name, tabs=tabs, column=column, width=width)


def _parse_columns(
    sentence: NumberedLines, *, name: str, tabs: bool, column: int | None, width: int | None
) -> WordsAndTags:
    """Return column 0 and the tag's; `width` is the required number of columns, None for any that reaches the tag."""
    words, tags = [], []
    for number, line in sentence:
        place = f"{name}:{number}"
        cells = _cells(line, tabs=tabs)
        tag = len(cells) - 1 if column is None else column
        if len(cells) != width if width else len(cells) <= tag:
            raise _wrong_width(cells, place, tabs=tabs, expected=width or f"at least {tag + 1}")
        if not cells[0] or not cells[tag]:
            what = f"the {'tag' if cells[0] else 'word'} is empty"
            raise DataError(what, where=place, cure="write the word first, and a tag on every line")
        words.append(cells[0])
        tags.append(cells[tag])
    return words, tags


def _cells(line: str, *, tabs: bool) -> list[str]:
    """Split at blanks and tabs only: a no-break space, at which `str.split` splits too, can be part of a word."""
    return [cell.strip(" ") for cell in line.split("\t")] if tabs else _BLANKS.split(line.strip(" \t"))


def _wrong_width(cells: list[str], place: str, *, tabs: bool, expected: int | str) -> DataError:
    what = f"{len(cells)} column{'s' * (len(cells) != 1)} where {expected} are expected"
    cure = (
        f"its columns are: {list_columns(range(len(cells)), cells)}; "
        f"every line must have them separated by {'tabs' if tabs else 'blanks'}, like the first token line"
    )
    return DataError(what, where=place, cure=cure)
