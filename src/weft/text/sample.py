"""The text that vocabularies are learned from: for subwords the beginning of the training text, cut into stretches that
the trainers can process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weft.text.pipeline import normalizer
from weft.text.rules import TextRules
from weft.text.unknown import unknown_word
from weft.text.vocabulary import nothing_to_learn

SAMPLE_CHARACTERS = 50_000_000
"""Subwords are learned from the first texts of the stream, up to this many characters; the rest is not read."""

_LONG_RUN = re.compile(r"\S{200}")


def plain(texts: Iterable[str], config: TextRules) -> Iterator[str]:
    """Yield the texts, normalised and cut at words that mean unknown; without any text it raises `DataError`."""
    normalize, unknown = normalizer(config), unknown_word(config)
    empty = True
    for text in texts:
        for stretch in unknown.split(text) if unknown else (text,):
            if stretch:
                empty = False
                yield normalize(stretch)
    if empty:
        raise nothing_to_learn()


def sample(texts: Iterable[str], characters: int | None = None) -> Iterator[str]:
    """The first texts of a stream, until so many characters or `SAMPLE_CHARACTERS` have been read."""
    left = SAMPLE_CHARACTERS if characters is None else characters
    for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def stretches(texts: Iterable[str], config: TextRules) -> Iterator[str]:
    """The sample for the trainers: `plain` texts, in which very long words are cut."""
    for stretch in plain(sample(texts), config):
        yield from short_runs(stretch)


def short_runs(text: str) -> Iterator[str]:
    """Cut after 200 characters without a blank, because the time of a merge grows with the length of each word."""
    start = 0
    for run in _LONG_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    if start < len(text):
        yield text[start:]
