"""Statements that describe a person or a thing: adjectives, comparisons, states, ages, weather, existence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.phrasebook import adjuncts, verbs
from weft.phrasebook.clause import THERE, Clause, Tense, predicate
from weft.phrasebook.draw import Draw
from weft.phrasebook.english import SHORT_COMPARATIVES, Word, comparative, tagged
from weft.phrasebook.lexicon import ADJECTIVES, DESCRIBES, NAMES, Adjective, nouns
from weft.phrasebook.nominal import IT, NOTHING, Nominal, Piece, inflect, named, piece, stressed
from weft.phrasebook.nounphrase import NUMBERS, noun_phrase, owned
from weft.phrasebook.sentence import Phrase, sentence
from weft.phrasebook.statements import told

_KIN = nouns("kin")
_SAID_OF_PEOPLE = tuple(
    adjective for adjective, fitting in DESCRIBES.items() if not fitting or all(noun in fitting for noun in _KIN)
)


def _adjectives(words: str) -> tuple[Adjective, ...]:
    return tuple(ADJECTIVES[word] for word in words.split())


_ABSOLUTE = _adjectives(
    "French Italian Spanish German red blue green yellow white black empty full broken open closed ready"
)
_PREDICATIVE = tuple(adjective for adjective in DESCRIBES if adjective.english != "new")
_COMPARED_PEOPLE = _adjectives("tall old young strong rich happy intelligent polite careful nervous")
_COMPARED_THINGS = _adjectives(
    "small big expensive heavy useful interesting comfortable dangerous noisy clean famous beautiful fresh good"
)
_BE_TENSES: tuple[Tense, ...] = ("present", "present", "present", "past", "past", "future")
_QUITE = Word("quite", "ADV")
_BE_FORMS = frozenset({"is", "are", "was", "were", "be"})


def described(adjective: Adjective, subject: Nominal, degree: Piece = NOTHING) -> Piece:
    """An adjective said of a subject: very tired, très fatiguées."""
    return degree + Piece((Word(adjective.english, "ADJ"),), tuple(inflect(adjective, subject.agreement).split()))


def feeling(draw: Draw, subject: Nominal, tense: Tense) -> Clause:
    """Paul is tired, proud, late, …"""
    return _being(draw, draw.pick(_SAID_OF_PEOPLE), subject, tense)


def quality(draw: Draw) -> Clause:
    """A person, an animal, a thing or a place with an adjective."""
    adjective, tense = draw.pick(_PREDICATIVE), draw.pick(_BE_TENSES)
    if adjective in _SAID_OF_PEOPLE:
        return _being(draw, adjective, draw.anyone(), tense)
    return _being(draw, adjective, draw.definite(draw.pick(DESCRIBES[adjective]), adjective=0.0), tense)


def _being(draw: Draw, adjective: Adjective, subject: Nominal, tense: Tense) -> Clause:
    degree = NOTHING if adjective in _ABSOLUTE else draw.degree(0.3)
    tail = described(adjective, subject, degree)
    return Clause(subject=subject, verb=verbs.BE, tense=tense, tail=tail)


def _quality(draw: Draw) -> Phrase:
    clause = quality(draw)
    # "not quite" says less than "pas assez"
    quite = _QUITE in clause.tail.english
    return told(clause if quite else replace(clause, negation=draw.negation(clause.tense)))


def compared(adjective: Adjective, subject: Nominal, other: Piece, how: str = "more") -> Piece:
    """taller than Anna, plus grand qu'Anna; less rich than him; as old as Paul; better, meilleur."""
    form = inflect(adjective, subject.agreement)
    if how == "more":
        words = (*comparative(adjective.english), Word("than", "ADP"))
        better = adjective.english == "good"
        mots = (inflect(Adjective("better", "meilleur"), subject.agreement),) if better else ("plus", form)
    elif how == "less":
        words, mots = tagged(f"less/ADV {adjective.english}/ADJ than/ADP"), ("moins", form)
    else:
        words, mots = tagged(f"as/ADV {adjective.english}/ADJ as/ADP"), ("aussi", form)
    return Piece(words, (*mots, "que")) + other


def _comparison(draw: Draw) -> Phrase:
    how = draw.pick(("more", "more", "less", "as"))
    if draw.chance(0.5):
        adjective, subject = draw.pick(_COMPARED_PEOPLE), draw.anyone()
        other = draw.someone().piece if draw.chance(0.6) else stressed(NOTHING, draw.other(subject))
    else:
        adjective = draw.pick(_COMPARED_THINGS)
        noun = draw.pick([noun for noun in DESCRIBES[adjective] if noun not in nouns("person")])
        subject = draw.definite(noun, adjective=0.0)
        plural = subject.agreement.plural
        rivals = owned(draw.name(), noun, plural=plural), noun_phrase(noun, draw.owner(), plural=plural)
        other = draw.pick(rivals).piece
    if how == "less" and adjective.english in SHORT_COMPARATIVES:
        how = "as"
    tail = compared(adjective, subject, other, how)
    return told(Clause(subject=subject, verb=verbs.BE, tense=draw.pick(_BE_TENSES), tail=tail))


def _profession(draw: Draw) -> Phrase:
    """Anna is a doctor, Anna est médecin: French has no article here."""
    subject, noun = draw.anyone(), draw.pick(nouns("profession"))
    plural = subject.agreement.plural
    work = noun_phrase(noun, "bare" if plural else "a", plural=plural)
    tail = Piece(work.english, (noun.french_plural if plural else noun.french,))
    tense = draw.pick(_BE_TENSES)
    negation = draw.negation(tense, 0.2)
    return told(Clause(subject=subject, verb=verbs.BE, tense=tense, negation=negation, tail=tail))


def _kinship(draw: Draw) -> Phrase:
    """Paul is her uncle, Paul est son oncle; the nurse is Marc's sister."""
    noun = draw.pick(nouns("kin friend neighbour"))
    others = [
        person for person in nouns("person") if person.feminine == noun.feminine and person.english != noun.english
    ]
    names = [name for name in NAMES.values() if name.feminine == noun.feminine]
    subject = named(draw.pick(names)) if draw.chance(0.5) else noun_phrase(draw.pick(others), "the")
    kin = noun_phrase(noun, draw.owner()) if draw.chance(0.7) else owned(draw.name(), noun)
    negation = "not" if draw.chance(0.25) else ""
    return told(Clause(subject=subject, verb=verbs.BE, negation=negation, tail=kin.piece))


def _state(draw: Draw) -> Phrase:
    """I am hungry, j'ai faim."""
    if draw.chance(0.25):
        subject, state = draw.definite(draw.pick(nouns("animal"))), draw.pick(adjuncts.FEELINGS[:4])
    else:
        subject, state = draw.anyone(), draw.pick(adjuncts.FEELINGS)
    clause = Clause(subject=subject, verb=verbs.BE_IN_STATE, tense=draw.pick(_BE_TENSES), tail=state)
    return told(replace(clause, negation=draw.negation(clause.tense)))


def _age(draw: Draw) -> Phrase:
    """She is ten years old, elle a dix ans."""
    number = draw.pick(tuple(NUMBERS))
    age = piece(f"{number}/NUM years/NOUN old/ADJ", f"{NUMBERS[number]} ans")
    kin = draw.pick(nouns("boy girl child brother sister cousin son daughter"))
    subject = draw.pick((draw.name(), draw.pronoun().subject, draw.definite(kin, adjective=0.0)))
    return told(Clause(subject=subject, verb=verbs.BE_IN_STATE, tense=draw.pick(_BE_TENSES), tail=age))


def weather(draw: Draw, tense: Tense) -> Clause:
    """It is cold, il fait froid; it rained, il a plu."""
    if draw.chance(0.4):
        return Clause(subject=IT, verb=draw.pick((verbs.RAIN, verbs.SNOW)), tense=tense)
    return Clause(subject=IT, verb=verbs.BE_WEATHER, tense=tense, tail=draw.very(0.2) + draw.pick(adjuncts.WEATHER))


def _weather(draw: Draw) -> Phrase:
    clause = weather(draw, draw.pick(("present", "past", "future")))
    times = adjuncts.TIMES[clause.tense]
    if clause.tense == "present":
        times = adjuncts.SEASONS if clause.verb.aspect == "action" else (*adjuncts.SEASONS, *adjuncts.NOW)
    where = draw.pick(adjuncts.IN_TOWN) if draw.chance(0.6) else NOTHING
    when = draw.pick(times) if draw.chance(0.6) else NOTHING
    negation = "not" if draw.chance(0.2) else ""
    return told(replace(clause, negation=negation, tail=clause.tail + where + when))


def _price(draw: Draw) -> Phrase:
    noun = draw.pick(nouns("thing food drink"))
    number = draw.pick(tuple(NUMBERS)[: 9 if noun in nouns("food drink") else None])
    price = piece(f"{number}/NUM euros/NOUN", f"{NUMBERS[number]} euros")
    subject = draw.definite(noun, adjective=0.4)
    tense: Tense = draw.pick(("present", "present", "past", "future"))
    return told(Clause(subject=subject, verb=verbs.COST, tense=tense, tail=price))


def there_is(thing: Nominal, tense: Tense, tail: Piece, negation: str = "") -> Piece:
    """There are two keys in the box, il y a deux clés dans la boîte; with "no", il n'y a pas de."""
    tail = thing.piece + tail
    clause = Clause(subject=IT, verb=verbs.BE_IN_STATE, tense=tense, negation=negation, clitics=(THERE,), tail=tail)
    # English agrees with what there is, French with il
    words = predicate(replace(clause, subject=Nominal((), (), person=thing.person))).english
    be = tuple(word._replace(tag="VERB") if word.text in _BE_FORMS else word for word in words)
    return Piece((Word("there", "PRON"), *be), ("il", *predicate(clause).french))


def _existence(draw: Draw) -> Phrase:
    kinds, where = draw.pick(
        (
            ("thing", adjuncts.SPOTS),
            ("food drink", adjuncts.SHELVES),
            ("animal tree flower car bicycle bus", adjuncts.WILDS),
            ("person", adjuncts.SURROUNDINGS),
        )
    )
    noun, place = draw.pick(nouns(kinds)), draw.place(where, adjective=0.0)
    tense: Tense = draw.pick(("present", "present", "present", "past", "future"))
    if draw.chance(0.2):
        plural = not noun.mass and draw.chance(0.5)
        return sentence(there_is(noun_phrase(noun, "no", plural=plural), tense, place, "no"))
    choices = ("some", "a lot of") if noun.mass else ("a", "a", "some", "many", "several", "a few", draw.number())
    determiner = draw.pick(choices)
    thing = noun_phrase(noun, determiner, draw.adjective(noun), plural=determiner != "a" and not noun.mass)
    return sentence(there_is(thing, tense, place))


def _location(draw: Draw) -> Phrase:
    if draw.chance(0.5):
        subject, place = draw.definite(draw.pick(nouns("thing"))), draw.place(adjuncts.SPOTS, adjective=0.0)
    elif draw.chance(0.7):
        subject, place = draw.anyone(), draw.place(adjuncts.SURROUNDINGS)
    else:
        subject, place = draw.definite(draw.pick(nouns("animal car bicycle bus"))), draw.place(adjuncts.WILDS)
    tense = draw.pick(_BE_TENSES)
    negation = draw.negation(tense, 0.2)
    return told(Clause(subject=subject, verb=verbs.BE, tense=tense, negation=negation, tail=place))


DESCRIPTIONS: dict[Callable[[Draw], Phrase], float] = {
    _quality: 5,
    _comparison: 2.5,
    _profession: 1,
    _kinship: 1,
    _state: 1.5,
    _age: 1,
    _weather: 1,
    _price: 1,
    _existence: 2,
    _location: 2,
}
"""Every pattern with its share."""
