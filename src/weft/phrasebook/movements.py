"""Statements about coming, going, living and all that is done to nothing, collected in `MOVEMENTS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.phrasebook import adjuncts, verbs
from weft.phrasebook.clause import Clause, Tense
from weft.phrasebook.draw import Draw
from weft.phrasebook.english import Word
from weft.phrasebook.lexicon import nouns
from weft.phrasebook.nominal import NOTHING, Piece, piece, stressed
from weft.phrasebook.nounphrase import prepositional
from weft.phrasebook.sentence import Phrase
from weft.phrasebook.statements import INTRANSITIVE, complete, told
from weft.phrasebook.verbs import Verb

MOTION = tuple(verbs.MOTION.values())
_SHARED = tuple(verbs.INTRANSITIVE[name] for name in ("sing", "dance", "work", "travel", "walk"))
_PACED = tuple(verbs.INTRANSITIVE[name] for name in ("run", "swim", "work", "walk", "dance"))
_DAILY = tuple(verbs.DAILY.values())
_DAILY_TENSES: tuple[Tense, ...] = ("present", "present", "past", "past", "past", "future", "going")
_TRANSPORT = tuple(verbs.MOTION[name] for name in ("arrive", "leave"))
_ANIMAL_VERBS = tuple(
    (verbs.INTRANSITIVE | verbs.TRANSITIVE)[name]
    for name in ("sleep", "run", "rest", "walk", "eat", "drink", "see", "watch", "look for")
)


def way(draw: Draw, verb: Verb) -> Piece:
    """Where one goes to, comes from or stays."""
    match verb.french:
        case "aller":
            return draw.pick(adjuncts.TO_TOWN) if draw.chance(0.4) else draw.place(adjuncts.GOALS)
        case "venir" | "revenir":
            return draw.pick(adjuncts.FROM_TOWN) if draw.chance(0.4) else draw.place(adjuncts.ORIGINS)
        case "arriver":
            return draw.pick(adjuncts.IN_TOWN) if draw.chance(0.4) else draw.place(adjuncts.STOPS)
        case "rester":
            return draw.scene()
    return NOTHING


def _intransitive(draw: Draw) -> Phrase:
    clause = draw.clause(draw.pick(INTRANSITIVE))
    where = draw.scene() if draw.chance(0.5) else NOTHING
    return told(replace(clause, tail=where + draw.time(clause)))


def _daily(draw: Draw) -> Phrase:
    """got up at seven o'clock, s'est levée à sept heures."""
    verb, tense = draw.pick(_DAILY), draw.pick(_DAILY_TENSES)
    if verb.aspect == "event":
        tense = "past"
    clause = Clause(subject=draw.anyone(), verb=verb, tense=tense, negation="not" if draw.chance(0.2) else "")
    when = draw.pick(adjuncts.AT_HOUR) if draw.chance(0.4) else draw.time(clause)
    return told(replace(clause, tail=when))


def _animal(draw: Draw) -> Phrase:
    verb = draw.pick(_ANIMAL_VERBS)
    clause = draw.clause(verb, draw.definite(draw.pick(nouns("animal")), adjective=0.3))
    if verb.english == "drink":
        drunk = draw.thing(draw.pick(nouns("water milk")), negated=bool(clause.negation))
        return told(replace(clause, tail=drunk.piece))
    clause = complete(draw, clause)
    where = NOTHING if verb.objects and draw.chance(0.7) else draw.place(adjuncts.WILDS)
    return told(replace(clause, tail=clause.tail + where))


def _company(draw: Draw) -> Phrase:
    """with her, avec elle; together, ensemble; alone, seule."""
    clause = draw.clause(draw.pick(_SHARED), draw.anyone())
    agreement = clause.subject.agreement
    if draw.chance(0.4):
        company = stressed(piece("with/ADP", "avec"), draw.other(clause.subject))
    elif draw.chance(0.5):
        company = prepositional("with/ADP", draw.someone())
    elif agreement.plural:
        company = piece("together/ADV", "ensemble")
    else:
        company = Piece((Word("alone", "ADJ"),), ("seule" if agreement.feminine else "seul",))
    return told(replace(clause, tail=company + draw.time(clause, 0.25)))


def _manner(draw: Draw) -> Phrase:
    clause = draw.clause(draw.pick(_PACED), negated=0.0)
    where = draw.place() if draw.chance(0.4) else NOTHING
    return told(replace(clause, adverb=NOTHING, tail=draw.degree() + draw.pick(adjuncts.MANNERS) + where))


def _motion(draw: Draw) -> Phrase:
    clause = draw.clause(draw.pick(MOTION))
    timely = clause.tense != "perfect" and draw.chance(0.25)
    when = draw.pick(adjuncts.AT_HOUR) if timely else draw.time(clause)
    return told(replace(clause, tail=way(draw, clause.verb) + when))


def _transport(draw: Draw) -> Phrase:
    """The train will arrive at noon, le train arrivera à midi."""
    subject = draw.definite(draw.pick(nouns("train bus boat plane")), adjective=0.2)
    clause = draw.clause(draw.pick(_TRANSPORT), subject, negated=0.15)
    if clause.tense == "perfect":
        return told(clause)
    town = draw.pick(adjuncts.IN_TOWN) if clause.verb.english == "arrive" and draw.chance(0.4) else NOTHING
    return told(replace(clause, adverb=NOTHING, tail=town + draw.pick(adjuncts.AT_HOUR)))


def _living(draw: Draw) -> Phrase:
    clause = draw.clause(verbs.LIVE)
    town = draw.pick(adjuncts.IN_TOWN) if draw.chance(0.4) else draw.place(adjuncts.HOMES)
    return told(replace(clause, tail=town))


MOVEMENTS: dict[Callable[[Draw], Phrase], float] = {
    _intransitive: 2.5,
    _daily: 1.5,
    _animal: 1.5,
    _company: 1.5,
    _manner: 1,
    _motion: 3,
    _transport: 0.7,
    _living: 1.5,
}
"""Every pattern with its share."""
