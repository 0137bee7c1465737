"""Several target languages: the first token of a source names the language to translate to.

The token has an id behind the vocabulary of the source, which no tokenizer gives to any text: a text cannot name a
language, whatever stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.data import Pair
from weft.errors import DataError


def learn_languages(records: Iterable[Pair]) -> tuple[str, ...]:
    """The languages of the training pairs, in alphabetical order; none where they have none."""
    return tuple(sorted({pair.language for pair in records if pair.language is not None}))


class Languages:
    """The languages of a run, and their tokens: first, first + 1, …"""

    def __init__(self, names: tuple[str, ...], *, first: int) -> None:
        self.names = names
        self.ids = range(first, first + len(names))

    def __bool__(self) -> bool:
        return bool(self.names)

    def name(self, index: int) -> str:
        """The language of a token, as it is shown beside other tokens."""
        return f"<{self.names[index - self.ids.start]}>"

    def tokens(self, pair: Pair) -> list[int]:
        """The token of a pair's language; none where there are no languages."""
        if not self.names:
            return []
        return [self.ids[self.names.index(self.checked(pair.language, place=pair.place))]]

    def checked(self, language: str | None, *, place: str = "") -> str:
        """The language, if it is one of these."""
        known = ", ".join(self.names)
        if not self.names:
            cure = "it needs a run that was trained with data.language"
            raise DataError("this run has no languages", where=place or f"language = {language}", cure=cure)
        if language is None:
            cure = f"give one of {known}: --language, language=…, or a column of the input"
            raise DataError("no language to translate to", where=place or None, cure=cure)
        if language not in self.names:
            raise DataError(f'"{language}" is not a language of this run', where=place or None, cure=f"it has {known}")
        return language
