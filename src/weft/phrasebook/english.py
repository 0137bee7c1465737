"""English word forms: plurals, articles, verb forms, and tagged words joined into text.

A word carries its universal part of speech from the moment it is written; sentences only put words together. Splitting
follows the English treebanks of Universal Dependencies: punctuation and the possessive 's are words of their own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Word(NamedTuple):
    """One English word with its universal part-of-speech tag."""

    text: str
    tag: str


_IRREGULAR = """
begin began begun | break broke broken | bring brought brought | buy bought bought
choose chose chosen | come came come | cost cost cost | cut cut cut | draw drew drawn | drink drank drunk
eat ate eaten | fall fell fallen | find found found | forget forgot forgotten | get got got | give gave given
go went gone | have had had | hide hid hidden | know knew known | leave left left | lend lent lent | lose lost lost
meet met met | put put put | read read read | run ran run | say said said | see saw seen | sell sold sold
send sent sent | sing sang sung | sit sat sat | sleep slept slept | speak spoke spoken | swim swam swum
take took taken | think thought thought | wake woke woken | wear wore worn | write wrote written
"""

IRREGULAR = {
    base: (past, participle)
    for base, past, participle in (row.split() for line in _IRREGULAR.strip().splitlines() for row in line.split("|"))
}
DOUBLING = frozenset({"begin", "cut", "forget", "get", "put", "run", "sit", "swim", "travel"})
SHORT_COMPARATIVES = {
    "small": "smaller", "big": "bigger", "tall": "taller", "old": "older", "young": "younger", "rich": "richer",
    "strong": "stronger", "clean": "cleaner", "heavy": "heavier", "happy": "happier", "good": "better",
    "fresh": "fresher", "noisy": "noisier",
}  # fmt: skip
_SILENT_H = frozenset({"honest"})
_SPOKEN_WITH_Y = frozenset({"university", "useful"})
GLUED = frozenset({".", "?", "!", ",", "'s"})


def tagged(text: str) -> tuple[Word, ...]:
    """Words written as `in/ADP front/NOUN of/ADP`."""
    return tuple(Word(*item.rsplit("/", 1)) for item in text.split())


def plural(noun: str) -> str:
    """The regular plural: boxes, cherries, books."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def article(following: str) -> str:
    """`a` or `an`, by the sound that follows."""
    vowel = following[0] in "aeiouAEIOU" and following not in _SPOKEN_WITH_Y
    return "an" if vowel or following in _SILENT_H else "a"


def third_person(base: str) -> str:
    """he goes, she carries, it has."""
    if base == "have":
        return "has"
    return base + "es" if base.endswith("o") else plural(base)


def past(base: str) -> str:
    """The simple past: walked, carried, ate."""
    return IRREGULAR[base][0] if base in IRREGULAR else _regular_past(base)


def participle(base: str) -> str:
    """The past participle: walked, carried, eaten."""
    return IRREGULAR[base][1] if base in IRREGULAR else _regular_past(base)


def _regular_past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return (base + base[-1] if base in DOUBLING else base) + "ed"


def gerund(base: str) -> str:
    """The -ing form: writing, running, seeing."""
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return (base + base[-1] if base in DOUBLING else base) + "ing"


def comparative(adjective: str) -> tuple[Word, ...]:
    """`taller`, or `more interesting`."""
    if adjective in SHORT_COMPARATIVES:
        return (Word(SHORT_COMPARATIVES[adjective], "ADJ"),)
    return (Word("more", "ADV"), Word(adjective, "ADJ"))


def be(person: int, *, past: bool = False) -> str:
    """The finite forms of be; `person` is an index into I, he, we, you, they."""
    return ("was", "was", "were", "were", "were")[person] if past else ("am", "is", "are", "are", "are")[person]


def glued(previous: str, word: str) -> bool:
    """Whether no blank stands between two words: before punctuation and the possessive 's, and in cannot."""
    return word in GLUED or (previous == "can" and word == "not")


def join(words: tuple[str, ...]) -> str:
    """Words as running text."""
    text = words[0]
    for previous, word in pairwise(words):
        text += word if glued(previous, word) else f" {word}"
    return text
