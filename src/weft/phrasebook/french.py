"""French word forms: elision, contraction, gender and number of nouns, adjectives and participles.

Words are kept whole ("le", "ami") until `join` writes them down ("l'ami"), so that every rule about neighbours stands
in one place. An `h` is mute unless the word is listed in `ASPIRATED`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class GenderNumber(NamedTuple):
    """The gender and number of a noun, with which adjectives and participles agree."""

    feminine: bool = False
    plural: bool = False


ASPIRATED = frozenset({"hamster", "hamsters", "hibou", "hiboux", "haricot", "haricots", "huit", "onze"})
ELIDING = frozenset({"je", "me", "se", "le", "la", "ne", "de", "que"})
_VOWELS = "aeiouàâäéèêëîïôöùûüœh"
_CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
_FEMININE = {
    "beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche", "frais": "fraîche",
    "long": "longue", "gentil": "gentille", "bon": "bonne", "jaloux": "jalouse",
}  # fmt: skip
_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil", "ce": "cet", "ma": "mon", "sa": "son"}


@cache
def opens_with_vowel(word: str) -> bool:
    """Whether le, de, que and their like lose their vowel before this word."""
    word = word.lower()
    return word == "y" or (word[0] in _VOWELS and word not in ASPIRATED)


def before(word: str, following: str) -> str:
    """The form of beau, nouveau, vieux, ce, ma and sa that stands before `following`."""
    return _BEFORE_VOWEL.get(word, word) if opens_with_vowel(following) else word


def contract(preposition: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """A preposition before a noun phrase: à + le lac = au lac, but à + l'école stays."""
    merged = _CONTRACTED.get((preposition, words[0]))
    if merged and (words[0] == "les" or not opens_with_vowel(words[1])):
        return (merged, *words[1:])
    return (*preposition.split(), *words)


def noun_plural(noun: str) -> str:
    """livres, gâteaux, chevaux, fils."""
    if noun.endswith(("s", "x")):
        return noun
    if noun.endswith("al"):
        return noun[:-2] + "aux"
    return noun + ("x" if noun.endswith(("eau", "hibou")) else "s")


def agree(adjective: str, agreement: GenderNumber) -> str:
    """An adjective or participle in the gender and number of its noun: vert, verte, verts, vertes."""
    word = _feminine(adjective) if agreement.feminine else adjective
    if not agreement.plural or word.endswith(("s", "x")):
        return word
    return word + ("x" if word.endswith("eau") else "s")


def _feminine(adjective: str) -> str:
    if adjective in _FEMININE:
        return _FEMININE[adjective]
    if adjective.endswith("e"):
        return adjective
    if adjective.endswith("eux"):
        return adjective[:-1] + "se"
    if adjective.endswith("er"):
        return adjective[:-2] + "ère"
    return adjective + ("ne" if adjective.endswith("en") else "e")


def join(words: tuple[str, ...]) -> str:
    """Words as running text: elision before vowels, a blank before ? and !, none before a full stop or comma."""
    text = ""
    for word, following in zip(words, (*words[1:], "."), strict=True):
        if word in ELIDING and opens_with_vowel(following):
            text += word[:-1] + "'"
        elif word == "si" and following in {"il", "ils"}:
            text += "s'"
        else:
            text += word if following in {".", ","} else word + " "
    return text
