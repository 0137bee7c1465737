"""What subwords are learned from: the beginning of the training text, in stretches that the trainers can bear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from weft.text.config import TextConfig
from weft.text.pipeline import normalizer
from weft.text.vocabulary import plain

SAMPLE_CHARACTERS = 50_000_000
"""Subwords are learned from the first texts of the stream, up to this many characters; the rest is not read."""

_LONG_RUN = re.compile(r"\S{200}")


def sample(texts: Iterable[str]) -> Iterator[str]:
    """The first texts of a stream, until `SAMPLE_CHARACTERS` have been read."""
    left = SAMPLE_CHARACTERS
    for text in texts:
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def stretches(texts: Iterable[str], config: TextConfig) -> Iterator[str]:
    """The sample as the trainers get it: normalised, without special tokens and without endless words."""
    for stretch in plain(sample(texts), normalizer(config)):
        yield from short_runs(stretch)


def short_runs(text: str) -> Iterator[str]:
    """Cut where 200 characters stand without a blank: a merge costs the length of every word it occurs in."""
    start = 0
    for run in _LONG_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    if start < len(text):
        yield text[start:]
