"""Clauses in both languages: tense, negation, object pronouns, modals and word order.

English   subject  auxiliary  not  often  verb  object-pronoun  tail
French    subject  ne  object-pronoun  verb  pas  souvent  participle  tail

English tense                                French tense
present, progressive    eats, is eating      présent             mange
past, perfect           ate, has eaten       passé composé       a mangé, est venue
past of a stative verb  knew, was            imparfait           connaissait, était
was eating, used to eat                      imparfait           mangeait
future, going           will eat, is going to eat   futur        mangera, va manger
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from weft.phrasebook import english
from weft.phrasebook.conjugation import WITH_ETRE, conjugate
from weft.phrasebook.english import Word, tagged
from weft.phrasebook.french import GenderNumber, agree
from weft.phrasebook.nominal import HE, NOTHING, Nominal, Piece, Pronoun
from weft.phrasebook.verbs import Modal, Verb

Tense: TypeAlias = Literal[
    "present", "progressive", "past", "perfect", "was doing", "used to", "future", "going", "imperative"
]

# English words beside the verb, French words behind it; French has ne before the verb with each of them
NEGATIONS = {
    "not": (tagged("not/PART"), ("pas",)),
    "not yet": (tagged("not/PART yet/ADV"), ("pas", "encore")),
    "never": (tagged("never/ADV"), ("jamais",)),
    "no longer": (tagged("no/ADV longer/ADV"), ("plus",)),
    "no": ((), ("pas",)),
    "nothing": ((), ("rien",)),
    "nobody": ((), ()),
}
_UNMARKED_PAST = frozenset({"cost", "cut", "put", "read"})
_REFLEXIVE = ("me", "se", "nous", "vous", "se")


class AmbiguousError(ValueError):
    """English that does not decide the French: `they read` would be present as well as past."""


@dataclass(frozen=True, slots=True)
class Clitic:
    """An object pronoun: behind the English verb, before the French one. A direct object makes participles agree."""

    english: tuple[Word, ...]
    french: str
    direct: GenderNumber | None = None


def direct(pronoun: Pronoun) -> Clitic:
    """sees her, la voit."""
    return Clitic((Word(pronoun.english_object, "PRON"),), pronoun.direct, pronoun.subject.agreement)


def indirect(pronoun: Pronoun) -> Clitic:
    """gives her (something), lui donne."""
    return Clitic((Word(pronoun.english_object, "PRON"),), pronoun.indirect)


def taking_up(agreement: GenderNumber) -> Clitic:
    """it or them, for a thing named before: le, la, les."""
    word, mot = ("them", "les") if agreement.plural else ("it", "la" if agreement.feminine else "le")
    return Clitic((Word(word, "PRON"),), mot, agreement)


THERE = Clitic((), "y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One finite verb with all that depends on it; `tail` holds what has the same order in both languages.

    `raised` is the gender and number of a direct object that stands before the clause (the letter that she wrote).
    """

    subject: Nominal
    verb: Verb
    tense: Tense = "present"
    negation: str = ""
    modal: Modal | None = None
    adverb: Piece = NOTHING
    clitics: tuple[Clitic, ...] = ()
    tail: Piece = NOTHING
    raised: GenderNumber | None = None


def statement(clause: Clause) -> Piece:
    """Subject and predicate in the order of a statement."""
    return clause.subject.piece + predicate(clause)


def predicate(clause: Clause) -> Piece:
    """All of a statement but its subject."""
    auxiliary, body = _english_verb(clause, support=False)
    return Piece((*auxiliary, *body), _french_predicate(clause))


def question(clause: Clause, asked: Piece = NOTHING) -> Piece:
    """With inversion in English and est-ce que in French; `asked` is where, when, why, what, which book."""
    auxiliary, body = _english_verb(clause, support=True)
    subject = clause.subject
    return asked + Piece(
        (*auxiliary, *subject.english, *body), ("est-ce", "que", *subject.french, *_french_predicate(clause))
    )


def _english_verb(clause: Clause, *, support: bool) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The auxiliary, or nothing, and the words from not to the end of the clause."""
    modal, verb = clause.modal, clause.verb
    support = support or clause.negation in {"not", "not yet"}
    auxiliary, rest = _english_tense(modal.verb if modal else verb.english, clause, support=support)
    if modal and modal.auxiliary:
        auxiliary, rest = (Word(modal.auxiliary, "AUX"),), (tagged(f"{modal.verb}/VERB") if modal.verb else ())
    if modal:
        rest = (*rest, *(tagged("to/PART") if modal.verb else ()), _bare(verb.english))
    words = NEGATIONS[clause.negation][0] if clause.negation else ()
    objects = tuple(word for clitic in clause.clitics for word in clitic.english)
    return auxiliary, (*words, *clause.adverb.english, *rest, *verb.particle, *objects, *clause.tail.english)


def _english_tense(base: str, clause: Clause, *, support: bool) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    person, tense = clause.subject.person, clause.tense
    third = person == HE
    bare = (_bare(base),)
    match tense:
        case "present" | "past" if base == "be":
            return (Word(english.be(person, past=tense == "past"), "AUX"),), ()
        case "present" if support:
            return (Word("does" if third else "do", "AUX"),), bare
        case "present" if base in _UNMARKED_PAST and not third:
            raise AmbiguousError(f"{base} is taken as a past here: use another tense or subject")
        case "present":
            return (), ((Word(english.third_person(base), "VERB"),) if third else bare)
        case "past" if support:
            return (Word("did", "AUX"),), bare
        case "past":
            return (), (Word(english.past(base), "VERB"),)
        case "perfect":
            return (Word("has" if third else "have", "AUX"),), (Word(english.participle(base), "VERB"),)
        case "progressive" | "was doing":
            return (Word(english.be(person, past=tense == "was doing"), "AUX"),), (Word(english.gerund(base), "VERB"),)
        case "used to":
            return (), (*tagged("used/VERB to/PART"), *bare)
        case "future":
            return (Word("will", "AUX"),), bare
        case "going":
            return (Word(english.be(person), "AUX"),), (*tagged("going/VERB to/PART"), *bare)
        case "imperative":
            return ((Word("do", "AUX"),) if support else ()), bare


def _bare(base: str) -> Word:
    return Word(base, "AUX" if base == "be" else "VERB")


def _french_predicate(clause: Clause) -> tuple[str, ...]:
    verb, person = clause.verb, clause.subject.person
    before = (*((_REFLEXIVE[person],) if verb.reflexive else ()), *(clitic.french for clitic in clause.clitics))
    finite, rest = _french_tense(clause)
    infinitive = clause.modal is not None or clause.tense == "going"
    if infinitive:
        link = (clause.modal.link,) if clause.modal and clause.modal.link else ()
        rest = (*rest, *link, *before, verb.french)
        before = ()
    ne = ("ne",) if clause.negation else ()
    pas = NEGATIONS[clause.negation][1] if clause.negation else ()
    return (*ne, *before, finite, *pas, *clause.adverb.french, *rest, *verb.complement, *clause.tail.french)


def _french_tense(clause: Clause) -> tuple[str, tuple[str, ...]]:
    """The finite verb, and the participle where the tense has one."""
    verb, modal, person = clause.verb, clause.modal, clause.subject.person
    forms = conjugate(modal.french if modal else verb.french)
    state = (modal or verb).aspect == "state"
    match clause.tense:
        case "present" | "progressive" | "imperative":
            return (forms.conditional(person) if modal and modal.conditional else forms.present[person]), ()
        case "future":
            return forms.future(person), ()
        case "going":
            return conjugate("aller").present[person], ()
        case "past" if state:
            return forms.imperfect(person), ()
        case "was doing" | "used to":
            return forms.imperfect(person), ()
        case "past" | "perfect" if modal:
            return conjugate("avoir").present[person], (forms.participle,)
        case "past" | "perfect":
            return _compound_past(clause, forms.participle)


def _compound_past(clause: Clause, participle: str) -> tuple[str, tuple[str, ...]]:
    """être agrees with the subject, avoir with a direct object that stands before it."""
    person = clause.subject.person
    if clause.verb.reflexive or clause.verb.french in WITH_ETRE:
        return conjugate("être").present[person], (agree(participle, clause.subject.agreement),)
    preceding = [clause.raised, *(clitic.direct for clitic in clause.clitics)]
    agreement = next((found for found in preceding if found is not None), GenderNumber())
    return conjugate("avoir").present[person], (agree(participle, agreement),)
