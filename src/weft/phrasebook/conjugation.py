"""French verbs: present, imperfect, future, conditional and participle, from a few principal parts.

Persons are indices into je, il, nous, vous, ils; the familiar tu is left out, because English `you` is always vous.

    imperfect    stem of the present nous form + ais, ait, ions, iez, aient
    future       future stem + ai, a, ons, ez, ont
    conditional  future stem + the endings of the imperfect
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

PERSONS = ("je", "il", "nous", "vous", "ils")
_IMPERFECT = ("ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "a", "ons", "ez", "ont")

# present je, il, nous, vous, ils; future stem; participle
_IRREGULAR = """
aller      | vais va allons allez vont                    | ir      | allé
apprendre  | apprends apprend apprenons apprenez apprennent | apprendr | appris
asseoir    | assieds assied asseyons asseyez asseyent     | assiér  | assis
attendre   | attends attend attendons attendez attendent  | attendr | attendu
avoir      | ai a avons avez ont                          | aur     | eu
boire      | bois boit buvons buvez boivent               | boir    | bu
connaître  | connais connaît connaissons connaissez connaissent | connaîtr | connu
courir     | cours court courons courez courent           | courr   | couru
croire     | crois croit croyons croyez croient           | croir   | cru
devoir     | dois doit devons devez doivent               | devr    | dû
dire       | dis dit disons dites disent                  | dir     | dit
dormir     | dors dort dormons dormez dorment             | dormir  | dormi
écrire     | écris écrit écrivons écrivez écrivent        | écrir   | écrit
endormir   | endors endort endormons endormez endorment   | endormir | endormi
envoyer    | envoie envoie envoyons envoyez envoient      | enverr  | envoyé
être       | suis est sommes êtes sont                    | ser     | été
faire      | fais fait faisons faites font                | fer     | fait
lire       | lis lit lisons lisez lisent                  | lir     | lu
mettre     | mets met mettons mettez mettent              | mettr   | mis
ouvrir     | ouvre ouvre ouvrons ouvrez ouvrent           | ouvrir  | ouvert
partir     | pars part partons partez partent             | partir  | parti
peindre    | peins peint peignons peignez peignent        | peindr  | peint
perdre     | perds perd perdons perdez perdent            | perdr   | perdu
pleuvoir   | pleus pleut pleuvons pleuvez pleuvent        | pleuvr  | plu
pouvoir    | peux peut pouvons pouvez peuvent             | pourr   | pu
prendre    | prends prend prenons prenez prennent         | prendr  | pris
revenir    | reviens revient revenons revenez reviennent  | reviendr | revenu
rire       | ris rit rions riez rient                     | rir     | ri
savoir     | sais sait savons savez savent                | saur    | su
sortir     | sors sort sortons sortez sortent             | sortir  | sorti
sourire    | souris sourit sourions souriez sourient      | sourir  | souri
suivre     | suis suit suivons suivez suivent             | suivr   | suivi
vendre     | vends vend vendons vendez vendent            | vendr   | vendu
venir      | viens vient venons venez viennent            | viendr  | venu
voir       | vois voit voyons voyez voient                | verr    | vu
vouloir    | veux veut voulons voulez veulent             | voudr   | voulu
"""

WITH_ETRE = frozenset({"aller", "arriver", "entrer", "partir", "rester", "revenir", "sortir", "tomber", "venir"})


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The principal parts of one French verb."""

    infinitive: str
    present: tuple[str, ...]
    future_stem: str
    participle: str

    def imperfect(self, person: int) -> str:
        """j'étais, elle mangeait, nous commencions."""
        stem = "ét" if self.infinitive == "être" else self.present[2].removesuffix("ons")
        return _soften(stem, _IMPERFECT[person])

    def future(self, person: int) -> str:
        """je serai, il enverra."""
        return self.future_stem + _FUTURE[person]

    def conditional(self, person: int) -> str:
        """je voudrais, il voudrait."""
        return self.future_stem + _IMPERFECT[person]


def _read(table: str) -> dict[str, Conjugation]:
    rows = ([field.strip() for field in line.split("|")] for line in table.strip().splitlines())
    return {verb: Conjugation(verb, tuple(present.split()), stem, done) for verb, present, stem, done in rows}


_TABLE = _read(_IRREGULAR)


@cache
def conjugate(infinitive: str) -> Conjugation:
    """The principal parts of a verb: looked up, or built by the rule of its ending."""
    if infinitive in _TABLE:
        return _TABLE[infinitive]
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        return _first_group(infinitive, stem)
    if infinitive.endswith("ir"):
        endings = ("is", "it", "issons", "issez", "issent")
        return Conjugation(infinitive, tuple(stem + ending for ending in endings), infinitive, stem + "i")
    raise ValueError(f"no conjugation for {infinitive}: add its principal parts to the table")


def _first_group(infinitive: str, stem: str) -> Conjugation:
    strong = _strong(stem)
    present = (strong + "e", strong + "e", _soften(stem, "ons"), stem + "ez", strong + "ent")
    # espérer keeps its é in the future: the accent changes only where the ending is silent
    future = infinitive if strong.endswith("èr") else strong + "er"
    return Conjugation(infinitive, present, future, stem + "é")


def _strong(stem: str) -> str:
    """The stem before a silent ending: achèt-, appell-, jett-, nettoi-."""
    if stem in {"appel", "jet"}:
        return stem + stem[-1]
    if stem in {"achet", "lev", "promen", "espér"}:
        return stem[:-2] + "è" + stem[-1]
    return stem[:-1] + "i" if stem.endswith("y") else stem


def _soften(stem: str, ending: str) -> str:
    """A soft g or c stays soft before a and o: mangeons, commençons."""
    if ending[0] in "ao":
        if stem.endswith("c"):
            return stem[:-1] + "ç" + ending
        return stem + ("e" if stem.endswith("g") else "") + ending
    # the stems of mangeons and commençons need no help before i: mangions, commencions
    if stem.endswith("ge"):
        return stem[:-1] + ending
    return (stem[:-1] + "c" if stem.endswith("ç") else stem) + ending
