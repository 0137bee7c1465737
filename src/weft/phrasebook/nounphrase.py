"""Noun phrases with a noun: determiner, number, adjective, owner, measure, and the prepositions before them.

The determiner is named by its English: `noun_phrase(NOUNS["apple"], "a", ADJECTIVES["red"])` is a red apple, une pomme
rouge. "bare" leaves English without a determiner and gives French the definite article (cats, les chats).
"""

from __future__ import annotations

from functools import cache

from weft.phrasebook import english, french
from weft.phrasebook.english import Word, tagged
from weft.phrasebook.french import GenderNumber
from weft.phrasebook.lexicon import Adjective, Noun
from weft.phrasebook.nominal import HE, OWNERS, THEY, Nominal, Piece, inflect
from weft.phrasebook.verbs import Verb

_ENGLISH_NUMBERS = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty fifty"""
_FRENCH_NUMBERS = """deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize
dix-sept dix-huit dix-neuf vingt trente cinquante"""
NUMBERS = dict(zip(_ENGLISH_NUMBERS.split(), _FRENCH_NUMBERS.split(), strict=True))

_ENGLISH = {
    "bare": "",
    "many": "many/ADJ",
    "several": "several/ADJ",
    "a few": "a/DET few/ADJ",
    "all the": "all/DET the/DET",
    "how many": "how/ADV many/ADJ",
    "a lot of": "a/DET lot/NOUN of/ADP",
}
_QUANTITIES = {
    "no": ("de",),
    "many": ("beaucoup", "de"),
    "a lot of": ("beaucoup", "de"),
    "how many": ("combien", "de"),
    "several": ("plusieurs",),
    "a few": ("quelques",),
    "every": ("chaque",),
} | {number: (mot,) for number, mot in NUMBERS.items()}

# English prepositions and their French; à and de contract with the article
PREPOSITIONS = {
    "in/ADP": "dans",
    "on/ADP": "sur",
    "under/ADP": "sous",
    "behind/ADP": "derrière",
    "with/ADP": "avec",
    "for/ADP": "pour",
    "in/ADP front/NOUN of/ADP": "devant",
    "at/ADP": "à",
    "to/ADP": "à",
    "from/ADP": "de",
    "of/ADP": "de",
    "near/ADP": "près de",
}


@cache
def noun_phrase(
    noun: Noun, determiner: str, adjective: Adjective | None = None, *, plural: bool = False, negated: bool = False
) -> Nominal:
    """A noun with its determiner and perhaps an adjective.

    `negated` says that it is the direct object of a negated verb, where French turns a, some and any into de.
    """
    agreement = GenderNumber(noun.feminine, plural)
    words: tuple[Word, ...] = (Word(noun.english_plural if plural else noun.english, "NOUN"),)
    mots: tuple[str, ...] = (noun.french_plural if plural else noun.french,)
    if adjective:
        words = (Word(adjective.english, "ADJ"), *words)
        form = inflect(adjective, agreement)
        leading = form if plural else french.before(form, mots[0])
        mots = (leading, *mots) if adjective.leading else (*mots, form)
    if determiner in {"a", "some", "any"}:
        mots = _indefinite(noun, mots, agreement, negated=negated, led=adjective is not None and adjective.leading)
    else:
        mots = (*_french_determiner(determiner, agreement, mots[0]), *mots)
    return Nominal((*_english_determiner(determiner, words[0].text, plural), *words), mots, agreement, _person(plural))


def _person(plural: bool) -> int:
    return THEY if plural else HE


def _english_determiner(determiner: str, following: str, plural: bool) -> tuple[Word, ...]:
    if determiner in _ENGLISH:
        return tagged(_ENGLISH[determiner])
    if determiner == "a":
        return (Word(english.article(following), "DET"),)
    if determiner in {"this", "that"}:
        return (Word({"this": "these", "that": "those"}[determiner] if plural else determiner, "DET"),)
    return (Word(determiner, "PRON" if determiner in OWNERS else "NUM" if determiner in NUMBERS else "DET"),)


def _indefinite(
    noun: Noun, mots: tuple[str, ...], agreement: GenderNumber, *, negated: bool, led: bool
) -> tuple[str, ...]:
    """un, une, du, de la, des; only de under negation, or before a plural adjective (de vieux livres)."""
    if negated or (agreement.plural and led):
        return ("de", *mots)
    if noun.mass:
        return french.contract("de", ("la" if agreement.feminine else "le", *mots))
    if agreement.plural:
        return ("des", *mots)
    return ("une" if agreement.feminine else "un", *mots)


def _french_determiner(determiner: str, agreement: GenderNumber, following: str) -> tuple[str, ...]:
    if determiner in _QUANTITIES:
        return _QUANTITIES[determiner]
    if determiner == "which":
        return (_select(agreement, "quel", "quelle", "quelles" if agreement.feminine else "quels"),)
    if determiner == "all the":
        return ("toutes" if agreement.feminine else "tous", "les")
    if determiner in {"this", "that"}:
        form = _select(agreement, "ce", "cette", "ces")
    elif determiner in OWNERS:
        form = _select(agreement, *OWNERS[determiner])
    else:
        form = _select(agreement, "le", "la", "les")
    return (form if agreement.plural else french.before(form, following),)


def _select(agreement: GenderNumber, masculine: str, feminine: str, plural: str) -> str:
    return plural if agreement.plural else feminine if agreement.feminine else masculine


def owned(owner: Nominal, noun: Noun, adjective: Adjective | None = None, *, plural: bool = False) -> Nominal:
    """Paul's red car, la voiture rouge de Paul."""
    thing = noun_phrase(noun, "the", adjective, plural=plural)
    words = (*owner.english, Word("'s", "PART"), *thing.english[1:])
    mots = (*thing.french, *french.contract("de", owner.french))
    return Nominal(words, mots, thing.agreement, thing.person)


def measure(container: Nominal, noun: Noun) -> Nominal:
    """a glass of water, un verre d'eau; a basket of apples, un panier de pommes."""
    word, mot = (noun.english, noun.french) if noun.mass else (noun.english_plural, noun.french_plural)
    words = (*container.english, Word("of", "ADP"), Word(word, "NOUN"))
    return Nominal(words, (*container.french, "de", mot), container.agreement, container.person)


def prepositional(preposition: str, nominal: Nominal) -> Piece:
    """A key of `PREPOSITIONS` and a noun phrase: at the lake, au lac; near Anna, près d'Anna."""
    *lead, last = PREPOSITIONS[preposition].split()
    return Piece((*tagged(preposition), *nominal.english), (*lead, *french.contract(last, nominal.french)))


def governed(verb: Verb, nominal: Nominal) -> Piece:
    """An object behind its verb, with the French preposition where the verb wants one: a besoin du livre."""
    return Piece(
        nominal.english, french.contract(verb.preposition, nominal.french) if verb.preposition else nominal.french
    )
