"""From the words of a sentence to the pair that is written down."""

from __future__ import annotations

from dataclasses import dataclass

from weft.phrasebook import english, french
from weft.phrasebook.nominal import Piece


@dataclass(frozen=True, slots=True)
class Phrase:
    """An English sentence, its French translation, and its words with their universal part-of-speech tags."""

    english: str
    french: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


def sentence(content: Piece, mark: str = ".") -> Phrase:
    """A capital at the beginning, a mark at the end; French has a blank before ? and !."""
    words = (*(word.text for word in content.english), mark)
    words = (_capital(words[0]), *words[1:])
    tags = (*(word.tag for word in content.english), "PUNCT")
    return Phrase(english.join(words), _capital(french.join((*content.french, mark))), words, tags)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
