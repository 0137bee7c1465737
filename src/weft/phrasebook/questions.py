"""Questions and commands: one pattern per function, collected in `QUESTIONS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.phrasebook import verbs
from weft.phrasebook.clause import Clause, Tense, question, statement
from weft.phrasebook.conjugation import conjugate
from weft.phrasebook.descriptions import quality
from weft.phrasebook.draw import Draw
from weft.phrasebook.english import Word, be
from weft.phrasebook.french import GenderNumber
from weft.phrasebook.lexicon import nouns
from weft.phrasebook.movements import MOTION, way
from weft.phrasebook.nominal import COMMA, NOTHING, WE, WHO, YOU, Nominal, Piece, piece
from weft.phrasebook.nounphrase import governed, noun_phrase
from weft.phrasebook.sentence import Phrase, sentence
from weft.phrasebook.statements import INTRANSITIVE, TRANSITIVE, complete
from weft.phrasebook.verbs import Verb

WHERE = piece("where/ADV", "où")
WHEN = piece("when/ADV", "quand")
WHY = piece("why/ADV", "pourquoi")
WHAT = piece("what/PRON", "que")
PLEASE = piece("please/INTJ", "s'il vous plaît")
LET_US = piece("let/VERB us/PRON", "")

_EVENTS: tuple[Tense, ...] = ("past", "past", "future", "going")
_DEEDS = tuple(verb for verb in TRANSITIVE if not verb.preposition)
_ASKED = tuple(
    verbs.TRANSITIVE[name]
    for name in ("eat", "drink", "buy", "sell", "take", "read", "write", "see", "look for", "find", "hide", "choose")
)
_ORDERED = tuple(verb for verb in _DEEDS if verb.aspect == "action" and verb.english != "sell")
_PLACED = tuple(verbs.INTRANSITIVE[name] for name in ("work", "sleep", "sing", "walk", "rest"))
_FOUND = tuple(verbs.TRANSITIVE[name] for name in ("buy", "find", "hide", "lose", "see", "meet"))


def _some_clause(draw: Draw) -> Clause:
    """A clause to make a question of."""
    if draw.chance(0.3):
        return quality(draw)
    verb = draw.pick((*TRANSITIVE, *INTRANSITIVE, *MOTION))
    clause = complete(draw, draw.clause(verb, negated=0.0))
    return clause if verb.objects else replace(clause, tail=way(draw, verb))


def _yes_or_no(draw: Draw) -> Phrase:
    clause = _some_clause(draw)
    return sentence(question(replace(clause, tail=clause.tail + draw.time(clause, 0.25))), "?")


def _have_you(draw: Draw) -> Phrase:
    """Do you have any milk? Est-ce que vous avez du lait ?"""
    noun = draw.pick(nouns("food drink animal thing"))
    thing = noun_phrase(noun, "any", draw.adjective(noun, 0.2), plural=not noun.mass)
    clause = Clause(subject=draw.anyone(), verb=verbs.STATIVE["have"], tail=thing.piece)
    return sentence(question(clause), "?")


def where_is(subject: Nominal, tense: Tense = "present") -> Piece:
    """Where is the key? Où est la clé ? The one question with inversion in both languages."""
    etre = conjugate("être")
    finite = etre.imperfect(subject.person) if tense == "past" else etre.present[subject.person]
    words = (*WHERE.english, Word(be(subject.person, past=tense == "past"), "AUX"), *subject.english)
    return Piece(words, (*WHERE.french, finite, *subject.french))


def _where(draw: Draw) -> Phrase:
    if draw.chance(0.4):
        subject = draw.definite(draw.pick(nouns("thing vehicle person animal")))
        return sentence(where_is(subject, draw.pick(("present", "present", "past"))), "?")
    if draw.chance(0.5):
        verb = draw.pick((verbs.LIVE, *_PLACED))
        clause = Clause(subject=draw.anyone(), verb=verb, tense=draw.pick(("present", "past", "future")))
    else:
        verb = draw.pick(_FOUND)
        tail = draw.definite(draw.pick(verb.objects)).piece
        clause = Clause(subject=draw.anyone(), verb=verb, tense=draw.pick(("past", "past", "future")), tail=tail)
    return sentence(question(clause, WHERE), "?")


def _when_or_why(draw: Draw) -> Phrase:
    if draw.chance(0.5):
        return sentence(question(_some_clause(draw), WHY), "?")
    verb = draw.pick((*_DEEDS, *MOTION))
    clause = Clause(subject=draw.anyone(), verb=verb, tense=draw.pick(_EVENTS))
    tail = draw.definite(draw.pick(verb.objects)).piece if verb.objects else way(draw, verb)
    return sentence(question(replace(clause, tail=tail), WHEN), "?")


def _who(draw: Draw) -> Phrase:
    """Who is opening the door? Qui ouvre la porte ?"""
    verb = draw.pick((*TRANSITIVE, *INTRANSITIVE, *MOTION))
    clause = complete(draw, draw.clause(verb, WHO, negated=0.0))
    tail = (clause.tail if verb.objects else way(draw, verb)) + draw.time(clause, 0.25)
    return sentence(statement(replace(clause, tail=tail)), "?")


def _what(draw: Draw) -> Phrase:
    """What did she buy? Qu'est-ce qu'elle a acheté ?"""
    clause = draw.clause(draw.pick(_ASKED), draw.anyone(), negated=0.0)
    return sentence(question(replace(clause, tail=draw.time(clause)), WHAT), "?")


def asked_object(verb: Verb, thing: Nominal, subject: Nominal, tense: Tense) -> Piece:
    """How many letters did he write? Combien de lettres est-ce qu'il a écrites ? The participle agrees."""
    return question(Clause(subject=subject, verb=verb, tense=tense, raised=thing.agreement), thing.piece)


def _which(draw: Draw) -> Phrase:
    verb = draw.pick(_DEEDS)
    noun = draw.pick(verb.objects)
    how_many = not noun.mass and draw.chance(0.5)
    plural = how_many or (not noun.mass and draw.chance(0.25))
    thing = noun_phrase(noun, "how many" if how_many else "which", draw.adjective(noun, 0.15), plural=plural)
    return sentence(asked_object(verb, thing, draw.anyone(), draw.tense(verb)), "?")


def command(verb: Verb, target: Nominal, *, negation: str = "", together: bool = False) -> Piece:
    """Open the door! Ouvrez la porte ! With `together`: let us open it, ouvrons."""
    addressed = Nominal((), (), GenderNumber(plural=True), WE if together else YOU)
    clause = Clause(subject=addressed, verb=verb, tense="imperative", negation=negation, tail=governed(verb, target))
    return (LET_US if together else NOTHING) + statement(clause)


def _command(draw: Draw) -> Phrase:
    if draw.chance(0.3):
        verb = draw.pick(_DEEDS)
        return sentence(command(verb, draw.definite(draw.pick(verb.objects)), negation="not"), "!")
    verb = draw.pick(_ORDERED)
    noun = draw.pick(verb.objects)
    target = draw.definite(noun) if draw.chance(0.6) else draw.thing(noun)
    if draw.chance(0.3):
        return sentence(command(verb, target, together=True), draw.pick(("!", ".")))
    if draw.chance(0.5):
        return sentence(command(verb, target) + COMMA + PLEASE)
    return sentence(command(verb, target), "!")


QUESTIONS: dict[Callable[[Draw], Phrase], float] = {
    _yes_or_no: 4,
    _have_you: 1,
    _where: 2,
    _when_or_why: 2,
    _who: 1.5,
    _what: 1,
    _which: 2,
    _command: 2.5,
}
"""Every pattern with its share."""
