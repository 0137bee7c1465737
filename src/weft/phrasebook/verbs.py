"""Verbs and modals in both languages, with what the verb is done to.

A row reads `english | french | objects`. Words behind the English verb belong to it (look for); behind the French one
stand its noun and its preposition (avoir besoin de). `se` marks a reflexive verb.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from weft.phrasebook.english import Word
from weft.phrasebook.lexicon import Noun, nouns

Aspect: TypeAlias = Literal["action", "event", "sense", "state"]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """One meaning in two languages.

    An `action` has every tense, an `event` (lose, break) no habit and no progressive, a `sense` (see) no progressive; a
    `state` (know) has none either, and its past is the French imperfect.
    """

    english: str
    particle: tuple[Word, ...]
    french: str
    reflexive: bool = False
    complement: tuple[str, ...] = ()
    preposition: str = ""
    aspect: Aspect = "action"
    objects: tuple[Noun, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A verb that takes an infinitive: `auxiliary` (can) or `verb` with to (want to), `link` is French de or à."""

    french: str
    link: str = ""
    auxiliary: str = ""
    verb: str = ""
    conditional: bool = False
    aspect: Aspect = "state"


_TRANSITIVE = """
eat        | manger       | food
drink      | boire        | drink
prepare    | préparer     | dish
buy        | acheter      | ware
sell       | vendre       | ware
take       | prendre      | thing
open       | ouvrir       | openable
close      | fermer       | openable
read       | lire         | readable
write      | écrire       | written
watch      | regarder     | person animal train boat painting
look for   | chercher     | person animal thing
listen to  | écouter      | person bird
wait for   | attendre     | person train bus plane boat
clean      | nettoyer     | cleanable
repair     | réparer      | machine
wash       | laver        | washable
wear       | porter       | hat coat shirt dress ring
carry      | porter       | container chair table lamp
paint      | peindre      | paintable
draw       | dessiner     | drawable
visit      | visiter      | sight
help       | aider        | person
call       | appeler      | person dog cat
invite     | inviter      | person
thank      | remercier    | person
cut        | couper       | sliceable
push       | pousser      | car bicycle chair table door box boat
enter      | entrer dans  | building
"""

_EVENTS = """
meet    | rencontrer  | person
lose    | perdre      | thing
find    | trouver     | animal thing
break   | casser      | fragile
forget  | oublier     | thing
choose  | choisir     | thing ride morsel
hide    | cacher      | thing
"""

_SENSES = """
see  | voir  | person animal thing place
"""

_STATIVE = """
have              | avoir            | animal thing ride guitar violin house garden
know              | connaître        | person sight restaurant hotel
like              | aimer            | person animal food drink place
love              | adorer           | person animal food drink place
hate              | détester         | animal food drink
need              | avoir besoin de  | thing chair table car bicycle
be afraid/ADJ of  | avoir peur de    | animal person
"""

_DATIVE = """
give   | donner    | thing morsel
show   | montrer   | thing animal
send   | envoyer   | readable ticket painting
lend   | prêter    | thing ride instrument
bring  | apporter  | thing food drink
sell   | vendre    | ware animal
"""

_INTRANSITIVE = """
sleep   | dormir
work    | travailler
sing    | chanter
dance   | danser
laugh   | rire
cry     | pleurer
run     | courir
swim    | nager
smile   | sourire
travel  | voyager
rest    | se reposer
walk    | se promener
"""

_DAILY = """
get up           | se lever
wake up          | se réveiller
fall asleep/ADJ  | se endormir
sit down         | se asseoir
hurry            | se dépêcher
"""

_MOTION = """
arrive         | arriver
leave          | partir
come back/ADV  | revenir
go out         | sortir
stay           | rester
go             | aller
come           | venir
"""

_CLAUSAL = """
think    | penser
know     | savoir
say      | dire
hope     | espérer
believe  | croire
"""


def _read(table: str, aspect: Aspect = "action") -> dict[str, Verb]:
    verbs = (_read_verb(row, aspect) for row in table.strip().splitlines())
    return {" ".join((verb.english, *(word.text for word in verb.particle))): verb for verb in verbs}


def _read_verb(row: str, aspect: Aspect) -> Verb:
    names, translation, *objects = (field.strip() for field in row.split("|"))
    base, *behind = names.split()
    particle = tuple(Word(*(word if "/" in word else f"{word}/ADP").split("/")) for word in behind)
    words = translation.split()
    reflexive = words[0] == "se"
    infinitive, *rest = words[1:] if reflexive else words
    preposition = rest.pop() if rest and rest[-1] in {"de", "dans"} else ""
    return Verb(
        base,
        particle,
        infinitive,
        reflexive=reflexive,
        complement=tuple(rest),
        preposition=preposition,
        aspect=aspect,
        objects=nouns(*objects) if objects else (),
    )


TRANSITIVE = _read(_TRANSITIVE) | _read(_EVENTS, "event") | _read(_SENSES, "sense")
STATIVE, CLAUSAL = _read(_STATIVE, "state"), _read(_CLAUSAL, "state")
DATIVE, INTRANSITIVE, MOTION = _read(_DATIVE), _read(_INTRANSITIVE), _read(_MOTION)
DAILY = _read(_DAILY) | _read("fall | tomber", "event")

BE = Verb("be", (), "être", aspect="state")
BE_IN_STATE = Verb("be", (), "avoir", aspect="state")
BE_WEATHER = Verb("be", (), "faire", aspect="state")
LIVE = Verb("live", (), "habiter", aspect="state")
COST = Verb("cost", (), "coûter", aspect="state")
RAIN, SNOW = Verb("rain", (), "pleuvoir"), Verb("snow", (), "neiger")
PUT = Verb("put", (), "mettre", objects=nouns("thing"))
PLAY_INSTRUMENT = Verb("play", (), "jouer", preposition="de", objects=nouns("instrument"))
PLAY_GAME = Verb("play", (), "jouer")
SPEAK = Verb("speak", (), "parler")

MODALS = {
    "want": Modal("vouloir", verb="want"),
    "can": Modal("pouvoir", auxiliary="can"),
    "must": Modal("devoir", auxiliary="must"),
    "would like": Modal("vouloir", auxiliary="would", verb="like", conditional=True),
    "like": Modal("aimer", verb="like"),
    "hope": Modal("espérer", verb="hope"),
    "try": Modal("essayer", "de", verb="try", aspect="event"),
    "begin": Modal("commencer", "à", verb="begin", aspect="event"),
    "forget": Modal("oublier", "de", verb="forget", aspect="event"),
    "learn": Modal("apprendre", "à", verb="learn", aspect="event"),
}
