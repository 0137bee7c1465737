"""Random choices that fit together: subject, object, time, place and tense.

Everything is computed from `Random.random()`, so that a seed gives the same sentences under every Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from weft.phrasebook.adjuncts import AT_HOME, DEGREES, IN_TOWN, OFTEN, SCENES, TIMES, Where
from weft.phrasebook.clause import Clause, Tense
from weft.phrasebook.french import GenderNumber
from weft.phrasebook.lexicon import NAMES, Adjective, Noun, adjectives_for, nouns
from weft.phrasebook.nominal import (
    ME,
    NOTHING,
    OWNERS,
    PRONOUNS,
    WE,
    YOU,
    Nominal,
    Piece,
    Pronoun,
    both,
    named,
)
from weft.phrasebook.nounphrase import NUMBERS, governed, noun_phrase, owned, prepositional
from weft.phrasebook.verbs import Aspect, Verb

Item = TypeVar("Item")

_NAMES = tuple(NAMES.values())
_OWNERS = tuple(OWNERS)
_NUMBERS = tuple(NUMBERS)
_ACQUAINTED = nouns("kin friend neighbour")
_PEOPLE = nouns("person kin")
_PLURAL = frozenset({"some", "any", "many", "several", "a few", "all the", *NUMBERS})
_COUNTED = (*["the"] * 4, *["a"] * 5, *["own"] * 3, "this", "that", "some", "some", "number", "number", "many",
            "several", "a few", "all the")  # fmt: skip
_DETERMINERS = {
    # by mass and negated: numbers and quantities keep out of the scope of a negation
    (False, False): _COUNTED,
    (False, True): ("the", "the", "a", "a", "a", "own", "this", "any", "any"),
    (True, False): ("the", "the", "some", "some", "some", "this", "own", "a lot of"),
    (True, True): ("the", "any", "any", "this", "own"),
}
# de would meet the de of du and des
_GOVERNED = ("the", "the", "the", "a", "a", "own", "this")
TENSES: dict[Aspect, tuple[Tense, ...]] = {
    "action": ("present", "present", "present", "progressive", "progressive", "past", "past", "past", "past", "future",
               "future", "going", "perfect", "was doing"),
    "event": ("past", "past", "past", "past", "future", "future", "going", "perfect"),
    "sense": ("present", "present", "present", "past", "past", "past", "future", "going", "perfect"),
    "state": ("present", "present", "present", "past", "past"),
}  # fmt: skip
"""The tenses a verb may have, each as often as it is drawn."""

_NEGATIONS: dict[Tense, tuple[str, ...]] = {
    "present": ("not", "not", "never", "no longer"),
    "progressive": ("not", "not", "no longer"),
    "past": ("not",),
    "perfect": ("never", "not yet"),
    "was doing": ("not",),
    "future": ("not", "never", "no longer"),
    "going": ("not",),
    "used to": ("",),
}


class Draw:
    """Choices from one stream of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self.random.random() * len(items))]

    def tense(self, verb: Verb) -> Tense:
        """A tense the verb may have."""
        return self.pick(TENSES[verb.aspect])

    def negation(self, tense: Tense, probability: float = 0.25) -> str:
        """Often none; else one that goes with the tense."""
        return self.pick(_NEGATIONS[tense]) if self.chance(probability) else ""

    def time(self, clause: Clause, probability: float = 0.35) -> Piece:
        """A time phrase for the tense of the clause, or nothing."""
        timed = clause.tense in TIMES and clause.verb.aspect != "state" and clause.adverb is NOTHING
        timed = timed and clause.negation in {"", "not"}
        if timed and self.chance(probability):
            return self.pick(TIMES[clause.tense])
        return NOTHING

    def degree(self, probability: float = 0.4) -> Piece:
        """very, too, quite, or nothing."""
        return self.pick(DEGREES) if self.chance(probability) else NOTHING

    def owner(self) -> str:
        return self.pick(_OWNERS)

    def very(self, probability: float) -> Piece:
        """very, or nothing: the one degree that also goes with a negation and a reason."""
        return DEGREES[0] if self.chance(probability) else NOTHING

    def number(self) -> str:
        """Mostly a small number."""
        return self.pick(_NUMBERS[:6] if self.chance(0.6) else _NUMBERS)

    def pronoun(self) -> Pronoun:
        return PRONOUNS[self.pick(("I", "he", "she", "we", "you", "they"))]

    def name(self) -> Nominal:
        return named(self.pick(_NAMES))

    def adjective(self, noun: Noun, probability: float = 0.3) -> Adjective | None:
        """An adjective that may describe the noun, or none."""
        fitting = adjectives_for(noun)
        return self.pick(fitting) if fitting and self.chance(probability) else None

    def definite(self, noun: Noun, *, plural: float = 0.25, adjective: float = 0.2) -> Nominal:
        """the, this or a possessive: a thing that both speakers know."""
        known = noun in _ACQUAINTED
        determiner = self.owner() if known else self.pick(("the", "the", "the", "the", "this", "that"))
        many = not noun.mass and self.chance(plural) and noun.english not in {"mother", "father"}
        return noun_phrase(noun, determiner, None if known else self.adjective(noun, adjective), plural=many)

    def someone(self, *, plural: float = 0.25) -> Nominal:
        """A person by name or by noun."""
        return self.name() if self.chance(0.4) else self.definite(self.pick(_PEOPLE), plural=plural)

    def anyone(self) -> Nominal:
        """Like `someone`, or a pronoun, or two people: the subject of most sentences."""
        if self.chance(0.4):
            return self.pronoun().subject
        first, second = self.someone(), self.name()
        return both(first, second) if self.chance(0.08) and first != second else first

    def single(self) -> Nominal:
        """A subject that he, she or its own pronoun can take up again."""
        return self.pronoun().subject if self.chance(0.3) else self.someone(plural=0.0)

    def clause(self, verb: Verb, subject: Nominal | None = None, *, negated: float = 0.25) -> Clause:
        """A clause with subject, tense, negation and adverb; what follows the verb is left open."""
        tense = self.tense(verb)
        negation = self.negation(tense, negated)
        if (verb.aspect, negation) in {("state", "never"), ("event", "no longer")}:
            negation = "not"
        habit = tense == "present" and verb.aspect == "action" and not negation
        adverb = self.pick(OFTEN) if habit and self.chance(0.25) else NOTHING
        return Clause(subject=subject or self.anyone(), verb=verb, tense=tense, negation=negation, adverb=adverb)

    def other(self, subject: Nominal) -> Pronoun:
        """A pronoun for another person than the subject."""
        same = {ME: ("I", "we"), WE: ("I", "we"), YOU: ("you",)}.get(subject.person, ())
        return PRONOUNS[self.pick([word for word in PRONOUNS if word not in same])]

    def object(self, verb: Verb, negation: str = "") -> Piece:
        """The object of the verb, with the French preposition if the verb needs one."""
        noun = self.pick(verb.objects)
        if verb.preposition:
            return governed(verb, self.someone() if noun in _PEOPLE else self._chosen(noun, _GOVERNED))
        return self.thing(noun, negated=bool(negation)).piece

    def thing(self, noun: Noun, *, negated: bool = False) -> Nominal:
        """A noun with any determiner that fits behind a verb."""
        if noun in _PEOPLE:
            return self.someone() if negated or self.chance(0.8) else noun_phrase(noun, "a", self.adjective(noun))
        return self._chosen(noun, _DETERMINERS[noun.mass, negated], negated=negated)

    def _chosen(self, noun: Noun, determiners: tuple[str, ...], *, negated: bool = False) -> Nominal:
        determiner = self.pick(determiners)
        if determiner == "own":
            if self.chance(0.3):
                return owned(self.someone(plural=0.0), noun, self.adjective(noun, 0.2))
            determiner = self.owner()
        if determiner == "number":
            determiner = self.number()
        many = determiner in _PLURAL or (determiner != "a" and self.chance(0.25))
        return noun_phrase(noun, determiner, self.adjective(noun), plural=many and not noun.mass, negated=negated)

    def place(self, where: Where = SCENES, adjective: float = 0.2) -> Piece:
        """A place: in the garden, near the old bridge."""
        preposition = self.pick(tuple(where))
        noun = self.pick(where[preposition])
        return prepositional(preposition, noun_phrase(noun, "the", self.adjective(noun, adjective)))

    def scene(self) -> Piece:
        """The place of an action: at home, in Rome, or a place with a noun."""
        if self.chance(0.3):
            return AT_HOME if self.chance(0.1) else self.pick(IN_TOWN)
        return self.place()

    def two(self) -> tuple[Nominal, Nominal]:
        """The subjects of two clauses. `they` is always ils, so it must not seem to mean women named before."""
        first = self.pronoun().subject if self.chance(0.3) else self.someone()
        women = first.agreement == GenderNumber(feminine=True, plural=True)
        return first, self.someone() if women or self.chance(0.7) else self.pronoun().subject
