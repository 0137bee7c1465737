"""Words that a written text may not or must contain, or begins with, as phrases of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.arguments import read_flag, read_list, read_texts
from weft.decoding import Constraint
from weft.decoding.constraints import contains
from weft.errors import ConfigError, counted
from weft.text import SOS, UNK, Tokenizer

Words = str | Sequence[str] | Sequence[Sequence[str]]
"""One word or phrase, several for all texts, or a list for each text."""

WORDS: Final = "give words, or a list of words for each text"
A_TEXT: Final = "give a text, or one for each input"


@dataclass(frozen=True)
class Wording:
    """Words and phrases that one text may not and must contain, what it begins with, and whether the unknown token is
    forbidden."""

    forbid: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    prefix: str = ""
    forbid_unknown: bool = False

    @property
    def constrains(self) -> bool:
        """Whether it requires more than a prefix."""
        return bool(self.forbid or self.require or self.forbid_unknown)

    def beginning(self, tokenizer: Tokenizer) -> list[int]:
        """The prefix in tokens."""
        tokens = tokenizer.encode(self.prefix)
        if UNK in tokens:
            cure = "begin with words that stand in the training text"
            raise ConfigError(f'"{self.prefix}" is not in the vocabulary', where="prefix", cure=cure)
        return tokens

    def constraint(self, tokenizer: Tokenizer) -> Constraint:
        """The forbidden and required phrases in tokens."""
        banned: dict[tuple[int, ...], str] = {}
        for word in self.forbid:
            banned |= {way: word for way in _ways_to_forbid(tokenizer, word) if way not in banned}
        required = {word: _ways_to_require(tokenizer, word) for word in self.require}
        for word, ways in required.items():
            blocks = [next((banned[phrase] for phrase in banned if contains(way, phrase)), None) for way in ways]
            if None not in blocks:
                what = f'"{word}" cannot be written where "{blocks[0]}" is forbidden'
                raise ConfigError(what, where="require", cure="leave out one of them")
        unknown = [(UNK,)] * self.forbid_unknown
        return Constraint(tuple(dict.fromkeys((*banned, *unknown))), tuple(required[word] for word in self.require))


def read_wordings(
    count: int,
    *,
    forbid: Words | None,
    require: Words | None,
    prefix: str | Iterable[str] = "",
    forbid_unknown: bool = False,
) -> list[Wording] | None:
    """The wording of each of `count` texts; None where nothing is required."""
    read_flag("forbid_unknown", forbid_unknown)
    prefixes = [prefix] * count if isinstance(prefix, str) else read_texts("prefix", prefix, A_TEXT)
    if len(prefixes) != count:
        what = f"{len(prefixes)} are given for {counted(count, 'text')}"
        raise ConfigError(what, where="prefix", cure="one for each text")
    forbidden, required = _per_text("forbid", forbid, count), _per_text("require", require, count)
    if not any(forbidden) and not any(required) and not any(prefixes) and not forbid_unknown:
        return None
    columns = zip(forbidden, required, prefixes, strict=True)
    return [Wording(*column, forbid_unknown) for column in columns]


def _per_text(name: str, words: Words | None, count: int) -> list[tuple[str, ...]]:
    """The words of each text."""
    given = [words] if isinstance(words, str) else [] if words is None else read_list(name, words, WORDS)
    shared = [word for word in given if isinstance(word, str)]
    if len(shared) == len(given):
        return [_checked(name, shared)] * count
    if shared:
        raise ConfigError("has words beside lists of words", where=name, cure="give words, or one list for each text")
    lists = [read_texts(f"{name}[{number}]", own, WORDS) for number, own in enumerate(given)]
    if len(lists) != count:
        raise ConfigError(
            f"{counted(len(lists), 'list')} for {counted(count, 'text')}", where=name, cure="one for each text"
        )
    return [_checked(name, own) for own in lists]


def _checked(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words without blanks around them."""
    bare = tuple(word.strip() for word in words)
    if not all(bare):
        raise ConfigError("an empty word", where=name, cure="leave it out")
    return bare


def _ways_to_forbid(tokenizer: Tokenizer, word: str) -> list[tuple[int, ...]]:
    """The tokens of a word at the beginning of a text and after a blank. A word outside the vocabulary needs no ban,
    but the word that means unknown in the files is the unknown token itself."""
    if word == tokenizer.config.unknown:
        return [(UNK,)]
    texts = [word] if tokenizer.kind == "word" else [word, f" {word}"]
    ways = dict.fromkeys(tuple(tokenizer.encode(text)) for text in texts)
    return [way for way in ways if way and UNK not in way]


def _ways_to_require(tokenizer: Tokenizer, word: str) -> tuple[tuple[int, ...], ...]:
    """The tokens of a word after a blank, or at the beginning of a text, so that it is not the end of another word.
    In a script without blanks between words, and among whole words, it may stand anywhere."""
    bare = tuple(tokenizer.encode(word))
    if not bare or UNK in bare:
        cure = "choose a word that stands in the training text"
        raise ConfigError(f'"{word}" is not in the vocabulary', where="require", cure=cure)
    if tokenizer.kind == "word":
        return (bare,)
    apart = tuple(tokenizer.encode(f" {word}"))
    spaced = word[0].isdigit() or word[0].lower() != word[0].upper()
    return (apart, (SOS, *bare)) if spaced else tuple(dict.fromkeys((bare, apart)))
