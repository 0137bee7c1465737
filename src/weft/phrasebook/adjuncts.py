"""When and where: time phrases by tense, places with their prepositions, adverbs."""

from __future__ import annotations

from typing import TypeAlias

from weft.phrasebook.clause import Tense
from weft.phrasebook.lexicon import Noun, nouns
from weft.phrasebook.nominal import Piece, piece
from weft.phrasebook.nounphrase import NUMBERS


def _read(table: str) -> tuple[Piece, ...]:
    return tuple(piece(*line.split("|")) for line in table.strip().splitlines())


_DAYS = "Monday lundi Tuesday mardi Wednesday mercredi Thursday jeudi Friday vendredi Saturday samedi Sunday dimanche"
_MONTHS = "April avril May mai June juin August août October octobre December décembre"


def _couples(text: str) -> tuple[tuple[str, str], ...]:
    words = text.split()
    return tuple(zip(words[::2], words[1::2], strict=True))


ON_DAY = tuple(piece(f"on/ADP {day}/PROPN", jour) for day, jour in _couples(_DAYS))
ON_DAYS = tuple(piece(f"on/ADP {day}s/PROPN", f"le {jour}") for day, jour in _couples(_DAYS))
IN_MONTH = tuple(piece(f"in/ADP {month}/PROPN", f"en {mois}") for month, mois in _couples(_MONTHS))

_PAST = (
    *_read("""
yesterday/NOUN           | hier
this/DET morning/NOUN    | ce matin
last/ADJ week/NOUN       | la semaine dernière
last/ADJ month/NOUN      | le mois dernier
last/ADJ year/NOUN       | la année dernière
"""),
    *ON_DAY,
    *IN_MONTH,
)
_FUTURE = (
    *_read("""
tomorrow/NOUN            | demain
tonight/NOUN             | ce soir
next/ADJ week/NOUN       | la semaine prochaine
next/ADJ month/NOUN      | le mois prochain
next/ADJ year/NOUN       | la année prochaine
soon/ADV                 | bientôt
"""),
    *ON_DAY,
    *IN_MONTH,
)
SEASONS = _read("""
in/ADP summer/NOUN  | en été
in/ADP winter/NOUN  | en hiver
in/ADP spring/NOUN  | au printemps
""")
_HABIT = (
    *_read("""
every/DET day/NOUN             | tous les jours
every/DET morning/NOUN         | tous les matins
every/DET evening/NOUN         | tous les soirs
every/DET week/NOUN            | toutes les semaines
in/ADP the/DET morning/NOUN    | le matin
in/ADP the/DET evening/NOUN    | le soir
"""),
    *SEASONS,
    *ON_DAYS,
)
NOW = _read("""
now/ADV                        | maintenant
today/NOUN                     | aujourd'hui
at/ADP the/DET moment/NOUN     | en ce moment
""")

TIMES: dict[Tense, tuple[Piece, ...]] = {
    "present": _HABIT,
    "progressive": NOW,
    "past": _PAST,
    "future": _FUTURE,
    "going": _FUTURE,
    "used to": _HABIT,
}
"""The time phrases that go with a tense."""

AT_HOUR = (
    piece("at/ADP noon/NOUN", "à midi"),
    piece("at/ADP midnight/NOUN", "à minuit"),
    piece("at/ADP one/NUM o'clock/ADV", "à une heure"),
    *(piece(f"at/ADP {hour}/NUM o'clock/ADV", f"à {heure} heures") for hour, heure in list(NUMBERS.items())[:10]),
)

_CITIES = """Paris Paris Lyon Lyon Rome Rome Madrid Madrid Berlin Berlin London Londres Geneva Genève
Brussels Bruxelles Lisbon Lisbonne Athens Athènes"""
_COUNTRIES = "France France Spain Espagne Italy Italie Germany Allemagne Greece Grèce Belgium Belgique"
_MASCULINE_COUNTRIES = "Japan Japon Canada Canada Portugal Portugal"


def _towns(preposition: str, city: str, country: str, masculine_country: str) -> tuple[Piece, ...]:
    """Cities and countries after an English preposition, with the French one for each of the three kinds."""
    kinds = ((city, _CITIES), (country, _COUNTRIES), (masculine_country, _MASCULINE_COUNTRIES))
    return tuple(
        piece(f"{preposition}/ADP {name}/PROPN", f"{mot} {nom}")
        for mot, names in kinds
        for name, nom in _couples(names)
    )


IN_TOWN, TO_TOWN = _towns("in", "à", "en", "au"), _towns("to", "à", "en", "au")
FROM_TOWN = _towns("from", "de", "de", "du")
AT_HOME = piece("at/ADP home/NOUN", "à la maison")

_REACHED = """school church market park station library museum hospital restaurant hotel bakery beach castle farm office
cinema theatre airport university"""

Where: TypeAlias = dict[str, tuple[Noun, ...]]
"""Prepositions, each with the nouns that make a place with it."""

SCENES: Where = {
    "in/ADP": nouns("garden kitchen house park forest village street shop school church library museum hotel field"),
    "at/ADP": nouns(_REACHED),
    "near/ADP": nouns("place tree"),
}
SURROUNDINGS: Where = SCENES | {
    "on/ADP": nouns("beach bridge island"),
    "behind/ADP": nouns("building tree wall door"),
    "in/ADP front/NOUN of/ADP": nouns("building door window"),
}
GOALS: Where = {"to/ADP": nouns(_REACHED)}
ORIGINS: Where = {"from/ADP": nouns(_REACHED)}
STOPS: Where = {"at/ADP": nouns(_REACHED)}
HOMES: Where = {
    "in/ADP": nouns("house village forest castle hotel city"),
    "on/ADP": nouns("island"),
    "near/ADP": nouns("place"),
    "behind/ADP": nouns("church school museum station library"),
    "in/ADP front/NOUN of/ADP": nouns("church school museum bakery theatre"),
}
SPOTS: Where = {
    "in/ADP": nouns("bag box suitcase basket kitchen garden car"),
    "on/ADP": nouns("table chair bed"),
    "under/ADP": nouns("table chair bed tree"),
    "behind/ADP": nouns("door lamp mirror"),
    "near/ADP": nouns("window door lamp"),
}
WILDS: Where = {
    "in/ADP": nouns("garden park forest street field"),
    "near/ADP": nouns("river lake bridge tree farm village house school"),
    "behind/ADP": nouns("house church tree wall farm"),
    "in/ADP front/NOUN of/ADP": nouns("house church castle school station"),
}
SHELVES: Where = {"in/ADP": nouns("basket box bag kitchen"), "on/ADP": nouns("table"), "near/ADP": nouns("window")}

OFTEN = _read("""
often/ADV        | souvent
always/ADV       | toujours
sometimes/ADV    | parfois
rarely/ADV       | rarement
""")
DEGREES = _read("""
very/ADV   | très
too/ADV    | trop
quite/ADV  | assez
""")
MANNERS = _read("""
slowly/ADV     | lentement
quickly/ADV    | rapidement
""")
ALREADY = piece("already/ADV", "déjà")
GAMES = _read("""
football/NOUN  | au football
tennis/NOUN    | au tennis
chess/NOUN     | aux échecs
cards/NOUN     | aux cartes
""")
LANGUAGES = _read("""
French/PROPN   | français
Spanish/PROPN  | espagnol
Italian/PROPN  | italien
German/PROPN   | allemand
English/PROPN  | anglais
""")
FEELINGS = _read("""
hungry/ADJ   | faim
thirsty/ADJ  | soif
cold/ADJ     | froid
hot/ADJ      | chaud
sleepy/ADJ   | sommeil
right/ADJ    | raison
""")
WEATHER = _read("""
cold/ADJ    | froid
hot/ADJ     | chaud
sunny/ADJ   | beau
""")
