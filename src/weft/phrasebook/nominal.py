"""Noun phrases for the rest of the grammar: words in both languages, with gender, number and person for agreement.

A `Piece` has words in both languages; a `Nominal` also has a gender, a number and a person. This module has the
nominals without a noun: names, pronouns and coordinations. `nounphrase` builds the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.phrasebook import french
from weft.phrasebook.english import Word, tagged
from weft.phrasebook.french import GenderNumber
from weft.phrasebook.lexicon import Adjective, Name

ME, HE, WE, YOU, THEY = range(5)
MASCULINE = GenderNumber()


@dataclass(frozen=True, slots=True)
class Piece:
    """Tagged English words and the French words that mean the same."""

    english: tuple[Word, ...] = ()
    french: tuple[str, ...] = ()

    def __add__(self, other: Piece) -> Piece:
        return Piece(self.english + other.english, self.french + other.french)


NOTHING = Piece()
COMMA = Piece((Word(",", "PUNCT"),), (",",))


def piece(words: str, translation: str) -> Piece:
    """`piece("last/ADJ week/NOUN", "la semaine dernière")`."""
    return Piece(tagged(words), tuple(translation.split()))


@dataclass(frozen=True, slots=True)
class Nominal:
    """A noun phrase; `person` is an index into I, he, we, you, they."""

    english: tuple[Word, ...]
    french: tuple[str, ...]
    agreement: GenderNumber = MASCULINE
    person: int = HE

    @property
    def piece(self) -> Piece:
        """The words alone."""
        return Piece(self.english, self.french)


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun: as subject, as object before the French verb (le, lui), after a preposition (avec lui)."""

    subject: Nominal
    english_object: str
    direct: str
    indirect: str
    stressed: str
    english_owner: str
    owner: tuple[str, str, str]


_PRONOUNS = """
I    je    me   me   me   moi   my    mon ma mes
he   il    him  le   lui  lui   his   son sa ses
she  elle  her  la   lui  elle  her   son sa ses
we   nous  us   nous nous nous  our   notre notre nos
you  vous  you  vous vous vous  your  votre votre vos
they ils   them les  leur eux   their leur leur leurs
"""
_PERSONS = {"I": ME, "he": HE, "she": HE, "we": WE, "you": YOU, "they": THEY}


def _read_pronouns() -> dict[str, Pronoun]:
    rows: dict[str, Pronoun] = {}
    for line in _PRONOUNS.strip().splitlines():
        word, mot, objective, direct, indirect, stressed, owner, masculine, feminine, plural = line.split()
        agreement = GenderNumber(feminine=word == "she", plural=_PERSONS[word] >= WE)
        subject = Nominal((Word(word, "PRON"),), (mot,), agreement, _PERSONS[word])
        rows[word] = Pronoun(subject, objective, direct, indirect, stressed, owner, (masculine, feminine, plural))
    return rows


PRONOUNS = _read_pronouns()
OWNERS = {pronoun.english_owner: pronoun.owner for pronoun in PRONOUNS.values()}

IT = Nominal((Word("it", "PRON"),), ("il",))
"""The it of the weather; every other it needs something to agree with."""
WHO = Nominal((Word("who", "PRON"),), ("qui",))
NOBODY = Nominal((Word("nobody", "PRON"),), ("personne",))


def named(name: Name) -> Nominal:
    """A person by name."""
    return Nominal((Word(name.text, "PROPN"),), (name.text,), GenderNumber(name.feminine))


def both(first: Nominal, second: Nominal) -> Nominal:
    """Paul and Anna: plural, and feminine only if both are."""
    return Nominal(
        (*first.english, Word("and", "CCONJ"), *second.english),
        (*first.french, "et", *second.french),
        GenderNumber(first.agreement.feminine and second.agreement.feminine, plural=True),
        THEY,
    )


def pronoun_for(nominal: Nominal) -> Pronoun:
    """The pronoun that takes up a subject again: he, she, we, they."""
    if nominal.person == HE:
        return PRONOUNS["she" if nominal.agreement.feminine else "he"]
    return PRONOUNS[("I", "he", "we", "you", "they")[nominal.person]]


def stressed(preposition: Piece, pronoun: Pronoun) -> Piece:
    """with her, avec elle."""
    return preposition + Piece((Word(pronoun.english_object, "PRON"),), (pronoun.stressed,))


def inflect(adjective: Adjective, agreement: GenderNumber) -> str:
    """The French form of an adjective for something of that gender and number."""
    return adjective.french if adjective.fixed else french.agree(adjective.french, agreement)
