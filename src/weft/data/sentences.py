"""Reads files with a word per line, CoNLL-U or columns, and writes them again with predicted tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.data.conllu import COLUMNS, check_columns
from weft.data.sources import decode, raw_lines, without_end
from weft.errors import ConfigError, DataError

FORM, MISC = COLUMNS.index("form"), COLUMNS.index("misc")
PROBABILITY: Final = "Probability"
"""The key of a tag's probability in the last column of CoNLL-U."""


class Sentence(NamedTuple):
    """The lines of a sentence, blank ones after it included, and which of them are words."""

    place: str
    lines: list[str]
    words: list[str]
    numbers: list[int]
    """The index of each word's line."""


@dataclass
class SentenceFile:
    """One pass over a file; `column` is the tag's column in CoNLL-U, None for a file of columns."""

    name: str
    column: int | None

    def __iter__(self) -> Iterator[Sentence]:
        lines: list[str] = []
        start, ended = 1, False
        for number, raw in raw_lines(self.name):
            line = without_end(decode(raw, self.name, number))
            if line.strip() and ended:
                yield self._sentence(lines, start)
                lines, start, ended = [], number, False
            lines.append(line)
            ended = ended or not line.strip()
        if lines:
            yield self._sentence(lines, start)

    def write(self, sentence: Sentence, tags: Sequence[str], probabilities: Sequence[str] | None) -> str:
        """Format the lines with the tags, and with their probabilities if they are given."""
        lines = list(sentence.lines)
        for index, (number, tag) in enumerate(zip(sentence.numbers, tags, strict=False)):
            share = None if probabilities is None else probabilities[index]
            lines[number] = self._tagged(lines[number], tag, share)
        return "".join(f"{line}\n" for line in lines)

    def _sentence(self, lines: list[str], start: int) -> Sentence:
        words, numbers = list[str](), list[int]()
        for number, line in enumerate(lines):
            if line.strip() and (word := self._word(line, f"{self.name}:{start + number}")):
                words.append(word)
                numbers.append(number)
        return Sentence(f"{self.name}:{start}", lines, words, numbers)

    def _word(self, line: str, place: str) -> str:
        """Return the word of a line; "" for a comment, a multiword token (3-4) and an empty node (5.1)."""
        if self.column is None:
            word = (line.split("\t") if "\t" in line else line.strip(" ").split(" "))[0].strip(" ")
            if not word:
                raise DataError("the word is empty", where=place, cure="write the word first")
            return word
        if line.startswith("#"):
            return ""
        check_columns(line, place)
        cells = line.split("\t")
        return cells[FORM] if cells[0].isdecimal() else ""

    def _tagged(self, line: str, tag: str, share: str | None) -> str:
        if self.column is None:
            separator = "\t" if "\t" in line else " "
            return separator.join(part for part in (line.rstrip(), tag, share) if part is not None)
        cells = line.split("\t")
        cells[self.column] = tag
        if share is not None:
            kept = "" if cells[MISC] == "_" else f"{cells[MISC]}|"
            cells[MISC] = f"{kept}{PROBABILITY}={share}"
        return "\t".join(cells)


def open_sentences(name: str, *, conllu: bool, field: str | int | None) -> SentenceFile:
    """Open a file of sentences; `field` is the name or number of CoNLL-U's column for tags, by default upos."""
    if not conllu:
        return SentenceFile(name, None)
    if isinstance(field, str) and field not in COLUMNS:
        cure = "give --format columns, or a sentence per line with --format text"
        raise ConfigError("is no column of CoNLL-U", where=f'data.field = "{field}"', cure=cure)
    return SentenceFile(name, field if isinstance(field, int) else COLUMNS.index(field or "upos"))
