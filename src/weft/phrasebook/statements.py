"""Statements about actions: one pattern per function, collected in `STATEMENTS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.phrasebook import adjuncts, verbs
from weft.phrasebook.clause import Clause, Tense, direct, indirect, statement
from weft.phrasebook.draw import Draw
from weft.phrasebook.lexicon import NOUNS, nouns
from weft.phrasebook.nominal import COMMA, NOBODY, NOTHING, piece
from weft.phrasebook.nounphrase import governed, measure, noun_phrase, prepositional
from weft.phrasebook.sentence import Phrase, sentence

TRANSITIVE = tuple(verbs.TRANSITIVE.values())
INTRANSITIVE = tuple(verbs.INTRANSITIVE.values())
ACTIONS = tuple(verb for verb in (*TRANSITIVE, *INTRANSITIVE) if verb.aspect == "action")
LIKING = tuple(verbs.STATIVE[name] for name in ("like", "love", "hate"))
FOR_PEOPLE = tuple(
    verb for verb in (*TRANSITIVE, *verbs.STATIVE.values()) if NOUNS["friend"] in verb.objects and not verb.preposition
)
_STATIVE = tuple(verb for verb in verbs.STATIVE.values() if verb not in LIKING and verb.english != "have")
_DATIVE = tuple(verbs.DATIVE.values())
_MODALS = tuple(verbs.MODALS.values())
# behind the others it is unclear whether the negation reaches the object and turns un into de
_NEGATABLE = tuple(verbs.MODALS[name] for name in ("want", "can", "must", "would like", "like"))
_SKILLS = tuple(
    (verbs.TRANSITIVE | verbs.INTRANSITIVE)[name]
    for name in ("read", "write", "draw", "paint", "repair", "prepare", "swim", "sing", "dance")
)
_MEASURES = (
    ("drink", "glass", "water milk wine beer"),
    ("drink", "cup", "tea coffee milk"),
    ("buy", "bottle", "drink"),
    ("buy", "basket", "fruit mushroom"),
    ("buy", "box", "biscuit egg chocolate"),
)
_PRIVATE = tuple(verbs.TRANSITIVE[name] for name in ("eat", "drink", "buy", "sell", "see", "find", "read", "break"))


def told(clause: Clause) -> Phrase:
    """The clause as a whole sentence."""
    return sentence(statement(clause))


def complete(draw: Draw, clause: Clause) -> Clause:
    """The clause with an object where its verb takes one."""
    return replace(clause, tail=draw.object(clause.verb, clause.negation)) if clause.verb.objects else clause


def _transitive(draw: Draw) -> Phrase:
    clause = complete(draw, draw.clause(draw.pick(TRANSITIVE)))
    return told(replace(clause, tail=clause.tail + draw.time(clause)))


def _stative(draw: Draw) -> Phrase:
    return told(complete(draw, draw.clause(draw.pick(_STATIVE))))


def _having(draw: Draw) -> Phrase:
    """has two red hats, a deux chapeaux rouges; does not have any milk, n'a pas de lait."""
    clause = draw.clause(verbs.STATIVE["have"])
    noun = draw.pick(clause.verb.objects)
    determiner = draw.pick(("a", "any") if clause.negation else ("a", "a", "some", "many", "several", draw.number()))
    plural = determiner != "a"
    thing = noun_phrase(noun, determiner, draw.adjective(noun, 0.5), plural=plural, negated=bool(clause.negation))
    return told(replace(clause, tail=thing.piece))


def _liking(draw: Draw) -> Phrase:
    """likes cats, aime les chats: English leaves out the article, French does not."""
    clause = draw.clause(draw.pick(LIKING))
    if draw.chance(0.4):
        return told(replace(clause, tail=draw.definite(draw.pick(clause.verb.objects)).piece))
    noun = draw.pick(nouns("animal food drink"))
    liked = noun_phrase(noun, "bare", draw.adjective(noun, 0.2) if noun.mass else None, plural=not noun.mass)
    return told(replace(clause, tail=liked.piece))


def _time_first(draw: Draw) -> Phrase:
    """Yesterday, …"""
    verb = draw.pick(ACTIONS)
    tense = draw.pick(tuple(adjuncts.TIMES))
    negation = draw.negation(tense, 0.2) if tense in {"past", "going"} else ""
    clause = complete(draw, Clause(subject=draw.anyone(), verb=verb, tense=tense, negation=negation))
    return sentence(draw.pick(adjuncts.TIMES[tense]) + COMMA + statement(clause))


def _used_to(draw: Draw) -> Phrase:
    verb = draw.pick((*ACTIONS, verbs.LIVE))
    clause = Clause(subject=draw.anyone(), verb=verb, tense="used to")
    if verb is verbs.LIVE:
        return told(replace(clause, tail=draw.pick(adjuncts.IN_TOWN)))
    clause = complete(draw, clause)
    return told(replace(clause, tail=clause.tail + draw.time(clause)))


def _already(draw: Draw) -> Phrase:
    """has already eaten, a déjà mangé."""
    verb = draw.pick(TRANSITIVE)
    clause = Clause(subject=draw.anyone(), verb=verb, tense="perfect", adverb=adjuncts.ALREADY)
    return told(complete(draw, clause))


def _object_pronoun(draw: Draw) -> Phrase:
    """sees her, la voit; saw her, l'a vue; wants to see her, veut la voir."""
    clause = draw.clause(draw.pick(FOR_PEOPLE))
    seen = direct(draw.other(clause.subject))
    if draw.chance(0.25):
        modal = draw.pick(_NEGATABLE[:4])
        negation = draw.pick(("", "", "not"))
        return told(Clause(subject=clause.subject, verb=clause.verb, negation=negation, modal=modal, clitics=(seen,)))
    return told(replace(clause, clitics=(seen,), tail=draw.time(clause)))


def _dative(draw: Draw) -> Phrase:
    """gives the book to the doctor, donne le livre au médecin; gives him the book, lui donne le livre."""
    clause = complete(draw, draw.clause(draw.pick(_DATIVE), negated=0.2))
    if draw.chance(0.5):
        return told(replace(clause, tail=clause.tail + prepositional("to/ADP", draw.someone())))
    return told(replace(clause, clitics=(indirect(draw.other(clause.subject)),)))


def _modal(draw: Draw) -> Phrase:
    modal = draw.pick(_MODALS)
    verb = draw.pick(_SKILLS if modal.verb == "learn" else ACTIONS)
    past = not modal.auxiliary and draw.chance(0.8 if modal.link else 0.4)
    tense: Tense = "past" if past else "present"
    negation = "not" if modal in _NEGATABLE and draw.chance(0.3) else ""
    clause = Clause(subject=draw.anyone(), verb=verb, tense=tense, negation=negation, modal=modal)
    if verb.objects:
        return told(complete(draw, clause))
    return told(replace(clause, tail=draw.scene() if draw.chance(0.6) else NOTHING))


def _placing(draw: Draw) -> Phrase:
    clause = complete(draw, draw.clause(verbs.PUT))
    return told(replace(clause, tail=clause.tail + draw.place(adjuncts.SPOTS, adjective=0.0)))


def _playing(draw: Draw) -> Phrase:
    """plays the piano, joue du piano; plays chess, joue aux échecs; speaks French, parle français."""
    verb = draw.pick((verbs.PLAY_INSTRUMENT, verbs.PLAY_GAME, verbs.SPEAK))
    clause = draw.clause(verb)
    if verb is verbs.PLAY_INSTRUMENT:
        played = governed(verb, noun_phrase(draw.pick(verb.objects), "the"))
    else:
        played = draw.pick(adjuncts.GAMES if verb is verbs.PLAY_GAME else adjuncts.LANGUAGES)
    tail = played + draw.time(clause) if draw.chance(0.5) else played + prepositional("with/ADP", draw.someone())
    return told(replace(clause, tail=tail))


def _measured(draw: Draw) -> Phrase:
    """a glass of water, un verre d'eau; two baskets of apples."""
    name, vessel, kinds = draw.pick(_MEASURES)
    clause = draw.clause(verbs.TRANSITIVE[name], negated=0.0)
    many = draw.chance(0.4)
    container = noun_phrase(NOUNS[vessel], draw.number() if many else "a", plural=many)
    measured = measure(container, draw.pick(nouns(kinds)))
    return told(replace(clause, tail=measured.piece + draw.time(clause)))


def _nobody(draw: Draw) -> Phrase:
    """Nobody sees the key, personne ne voit la clé; he sees nothing, il ne voit rien."""
    if draw.chance(0.5):
        clause = draw.clause(draw.pick((*TRANSITIVE, *INTRANSITIVE)), NOBODY, negated=0.0)
        clause = replace(clause, negation="nobody", adverb=NOTHING)
        if clause.verb.objects:
            return told(replace(clause, tail=governed(clause.verb, draw.definite(draw.pick(clause.verb.objects)))))
        return told(replace(clause, tail=draw.scene()))
    clause = draw.clause(draw.pick(_PRIVATE), negated=0.0)
    nothing = piece("nothing/PRON", "") + draw.time(clause)
    return told(replace(clause, negation="nothing", adverb=NOTHING, tail=nothing))


STATEMENTS: dict[Callable[[Draw], Phrase], float] = {
    _transitive: 5,
    _stative: 1.5,
    _having: 1.5,
    _liking: 2,
    _time_first: 2,
    _used_to: 1,
    _already: 1,
    _object_pronoun: 3,
    _dative: 3,
    _modal: 3,
    _placing: 1.5,
    _playing: 1.5,
    _measured: 1,
    _nobody: 1.5,
}
"""Every pattern with its share."""
