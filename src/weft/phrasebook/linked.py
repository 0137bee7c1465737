"""Sentences of two clauses: relative clauses, because, when, if, that, and, but; collected in `LINKED`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.phrasebook import adjuncts, verbs
from weft.phrasebook.clause import Clause, Tense, predicate, statement, taking_up
from weft.phrasebook.descriptions import described, feeling, weather
from weft.phrasebook.draw import Draw
from weft.phrasebook.lexicon import ADJECTIVES, Noun, adjectives_for, nouns
from weft.phrasebook.movements import MOTION, way
from weft.phrasebook.nominal import COMMA, NOTHING, Nominal, Piece, piece, pronoun_for
from weft.phrasebook.nounphrase import noun_phrase
from weft.phrasebook.sentence import Phrase, sentence
from weft.phrasebook.statements import ACTIONS, FOR_PEOPLE, INTRANSITIVE, LIKING, TRANSITIVE, complete, told

AND, BUT = piece("and/CCONJ", "et"), piece("but/CCONJ", "mais")
BECAUSE, IF = piece("because/SCONJ", "parce que"), piece("if/SCONJ", "si")
THAT, WHEN = piece("that/SCONJ", "que"), piece("when/ADV", "quand")

_BACKGROUND: tuple[Tense, ...] = ("progressive", "progressive", "present", "past", "was doing")
_DEEDS = tuple(verb for verb in TRANSITIVE if not verb.preposition)
_ENTRANCES = tuple(verbs.MOTION[name] for name in ("arrive", "leave", "come back", "go out"))
_VERBS = {name.replace(" ", "_"): verb for name, verb in (verbs.TRANSITIVE | verbs.INTRANSITIVE | verbs.DAILY).items()}
_RESTLESS = tuple(verbs.INTRANSITIVE[name] for name in ("sleep", "run", "rest", "walk"))
_REASONS = (
    ("tired", "work clean repair carry run swim walk travel dance wash"),
    ("sad", "lose break forget sell fall"),
    ("happy", "find meet visit buy see dance choose invite travel"),
    ("proud", "repair paint draw write help prepare"),
    ("nervous", "lose forget break wait_for fall"),
    ("late", "forget look_for wait_for sleep lose fall"),
)
_CONTRASTS = (
    ("tired sick sad busy", "", "work sing dance run swim walk help clean repair prepare visit laugh smile read"),
    ("tired sick", "not", "sleep rest"),
    ("late", "not", "hurry run"),
    ("ready", "not", "work sing dance read write"),
)
# what is done with a thing first, and then; the thing is taken up by it or them
_SEQUELS = tuple(
    (verbs.TRANSITIVE[first], verbs.TRANSITIVE[then], nouns(kinds))
    for first, then, kinds in (
        ("buy", "eat", "morsel staple"),
        ("buy", "drink", "drink"),
        ("prepare", "eat", "cake sandwich soup"),
        ("buy", "read", "readable"),
        ("find", "read", "readable"),
        ("take", "open", "box bottle bag suitcase letter"),
        ("write", "hide", "letter"),
        ("choose", "buy", "thing ride"),
        ("find", "sell", "portable"),
        ("lose", "find", "thing"),
        ("break", "repair", "clock lamp chair"),
        ("wash", "wear", "shirt dress coat"),
        ("buy", "lose", "thing"),
        ("cut", "eat", "bread cheese apple onion carrot"),
        ("see", "buy", "wearable ride"),
    )
)


def who_does(antecedent: Nominal, clause: Clause, *, human: bool = True) -> Nominal:
    """The man who lives in Paris, l'homme qui habite à Paris; the dog that is sleeping."""
    link = piece(f"{'who' if human else 'that'}/PRON", "qui")
    whole = antecedent.piece + link + predicate(replace(clause, subject=antecedent))
    return replace(antecedent, english=whole.english, french=whole.french)


def that_one_does(antecedent: Nominal, clause: Clause) -> Nominal:
    """The letter that she wrote, la lettre qu'elle a écrite: the participle agrees with what stands before."""
    raised = replace(clause, raised=antecedent.agreement)
    whole = antecedent.piece + piece("that/PRON", "que") + statement(raised)
    return replace(antecedent, english=whole.english, french=whole.french)


def _activity(draw: Draw, subject: Nominal, tense: Tense) -> Clause:
    """A clause with a person as subject, with or without an object."""
    verb = draw.pick((*ACTIONS, *MOTION))
    clause = complete(draw, Clause(subject=subject, verb=verb, tense=tense))
    return clause if verb.objects else replace(clause, tail=way(draw, verb))


def _relative_subject(draw: Draw) -> Phrase:
    human, told_of = draw.chance(0.75), draw.chance(0.5)
    noun = draw.pick(nouns("person" if human else "animal"))
    antecedent = noun_phrase(noun, "the", None if told_of else draw.adjective(noun), plural=draw.chance(0.25))
    verb = draw.pick((*INTRANSITIVE, verbs.LIVE) if human else _RESTLESS)
    tense = draw.tense(verb) if verb.aspect == "state" else draw.pick(_BACKGROUND)
    place = draw.scene() if human else draw.place(adjuncts.WILDS)
    whole = who_does(antecedent, Clause(subject=antecedent, verb=verb, tense=tense, tail=place), human=human)
    if told_of:
        return told(_is_somehow(draw, whole, noun, "past" if tense in {"past", "was doing"} else "present"))
    verb = draw.pick(FOR_PEOPLE if human else LIKING)
    return told(Clause(subject=draw.anyone(), verb=verb, tense=draw.tense(verb), tail=whole.piece))


def _relative_object(draw: Draw) -> Phrase:
    verb = draw.pick(_DEEDS)
    noun = draw.pick(verb.objects)
    others = [other for other in (*_DEEDS, *LIKING) if noun in other.objects and other != verb]
    told_of = not others or draw.chance(0.5)
    plural = not noun.mass and draw.chance(0.3)
    antecedent = noun_phrase(noun, "the", None if told_of else draw.adjective(noun), plural=plural)
    whole = that_one_does(antecedent, Clause(subject=draw.anyone(), verb=verb, tense=draw.tense(verb)))
    if told_of:
        return told(_is_somehow(draw, whole, noun, draw.pick(("present", "past"))))
    outer = draw.pick(others)
    return told(Clause(subject=draw.anyone(), verb=outer, tense=draw.tense(outer), tail=whole.piece))


def _is_somehow(draw: Draw, subject: Nominal, noun: Noun, tense: Tense) -> Clause:
    """An adjective that fits the noun, said of the whole subject."""
    fitting = [adjective for adjective in adjectives_for(noun) if adjective.english != "new"]
    return Clause(subject=subject, verb=verbs.BE, tense=tense, tail=described(draw.pick(fitting), subject))


def _mood(draw: Draw, moods: str, subject: Nominal, tense: Tense) -> Piece:
    adjective = ADJECTIVES[draw.pick(moods.split())]
    tail = described(adjective, subject, NOTHING if adjective.english == "ready" else draw.very(0.25))
    return statement(Clause(subject=subject, verb=verbs.BE, tense=tense, tail=tail))


def _because(draw: Draw) -> Phrase:
    """He is late because he lost the key, parce qu'il a perdu la clé."""
    moods, names = draw.pick(_REASONS)
    subject = draw.single()
    feels = _mood(draw, moods, subject, draw.pick(("present", "past")))
    deed = Clause(subject=pronoun_for(subject).subject, verb=_VERBS[draw.pick(names.split())], tense="past")
    return sentence(feels + BECAUSE + statement(complete(draw, deed)))


def _but(draw: Draw) -> Phrase:
    """She is tired but she is not resting, mais elle ne se repose pas."""
    moods, negation, names = draw.pick(_CONTRASTS)
    subject = draw.single()
    tense: Tense = draw.pick(("present", "past"))
    verb = _VERBS[draw.pick(names.split())]
    doing: Tense = "progressive" if tense == "present" else "past"
    deed = Clause(subject=pronoun_for(subject).subject, verb=verb, tense=doing, negation=negation)
    return sentence(_mood(draw, moods, subject, tense) + BUT + statement(complete(draw, deed)))


def _when(draw: Draw) -> Phrase:
    """When Paul arrived, Anna was reading: passé composé against imparfait."""
    first, second = draw.two()
    verb = draw.pick(_ENTRANCES)
    event = statement(Clause(subject=first, verb=verb, tense="past", tail=way(draw, verb)))
    background = statement(_activity(draw, second, "was doing"))
    return sentence(WHEN + event + COMMA + background if draw.chance(0.5) else background + WHEN + event)


def _if(draw: Draw) -> Phrase:
    """If it rains, we will stay at home; si before il is s'il."""
    first, second = draw.two()
    if draw.chance(0.4):
        given = statement(weather(draw, "present"))
    elif draw.chance(0.4):
        given = _mood(draw, "tired sad happy nervous late busy sick ready", first, "present")
    else:
        given = statement(_activity(draw, first, "present"))
    result = statement(_activity(draw, second, "future"))
    return sentence(IF + given + COMMA + result if draw.chance(0.6) else result + IF + given)


def _that(draw: Draw) -> Phrase:
    name = draw.pick(tuple(verbs.CLAUSAL))
    tense: Tense = "future" if name == "hope" else draw.pick(("present", "past", "future"))
    first, second = draw.two()
    inner = feeling(draw, second, tense) if draw.chance(0.4) else _activity(draw, second, tense)
    outer = Clause(subject=first, verb=verbs.CLAUSAL[name])
    return sentence(statement(outer) + THAT + statement(inner))


def _meanwhile(draw: Draw) -> Phrase:
    """Paul is reading and Anna is sleeping."""
    tense: Tense = draw.pick(("progressive", "past", "future", "going", "was doing"))
    first, second = draw.two()
    link = draw.pick((AND, AND, BUT))
    return sentence(statement(_activity(draw, first, tense)) + link + statement(_activity(draw, second, tense)))


def _sequel(draw: Draw) -> Phrase:
    """She bought an apple and she ate it, et elle l'a mangée."""
    first, then, things = draw.pick(_SEQUELS)
    noun = draw.pick(things)
    thing = draw.thing(noun)
    subject = draw.single()
    tense: Tense = draw.pick(("past", "past", "future", "going"))
    again = pronoun_for(subject).subject
    opening = Clause(subject=subject, verb=first, tense=tense, tail=thing.piece)
    closing = Clause(subject=again, verb=then, tense=tense, clitics=(taking_up(thing.agreement),))
    return sentence(statement(opening) + AND + statement(closing))


LINKED: dict[Callable[[Draw], Phrase], float] = {
    _relative_subject: 2,
    _relative_object: 2.5,
    _because: 2,
    _when: 1.5,
    _if: 2,
    _that: 2.5,
    _but: 1.5,
    _meanwhile: 1.5,
    _sequel: 3,
}
"""Every pattern with its share."""
