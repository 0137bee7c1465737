"""Nouns, adjectives and names in both languages, and the kinds that determine which words fit together.

One English word has one French word everywhere. Kinds keep sentences sensible: what is eaten is food, what is worn is
clothing. Where English is silent about gender the lexicon decides (`doctor` is médecin, `singer` is chanteuse).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from weft.phrasebook import english, french


# every word exists once, so that words are compared by identity
@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun: `mass` has no plural and takes the partitive (some bread, du pain)."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool
    mass: bool


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `leading` ones stand before the French noun, `fixed` ones never change (en retard)."""

    english: str
    french: str
    leading: bool = False
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A person."""

    text: str
    feminine: bool


_NOUNS = {
    "person": """man:men homme m, woman:women femme f, boy garçon m, girl fille f, child:children enfant m,
        student étudiant m, teacher professeur m, doctor médecin m, nurse infirmière f, baker boulanger m,
        farmer fermier m, waiter serveur m, singer chanteuse f, actress actrice f, queen reine f, king roi m,
        lawyer avocat m, painter peintre m, writer écrivain m, engineer ingénieur m, gardener jardinier m,
        tourist touriste m, neighbour voisin m, friend ami m""",
    "kin": """mother mère f, father père m, brother frère m, sister sœur f, uncle oncle m, aunt tante f,
        grandmother grand-mère:grands-mères f, grandfather grand-père:grands-pères m, cousin cousin m, son fils m,
        daughter fille f""",
    "animal": """dog chien m, cat chat m, horse cheval m, bird oiseau m, cow vache f, mouse:mice souris f,
        rabbit lapin m, duck canard m, hen poule f, goat chèvre f, elephant éléphant m, wolf:wolves loup m,
        bear ours m, hamster hamster m, donkey âne m, owl hibou m, fox renard m""",
    "morsel": """apple pomme f, orange orange f, pear poire f, cherry cerise f, strawberry fraise f, lemon citron m,
        tomato:tomatoes tomate f, carrot carotte f, onion oignon m, mushroom champignon m, bean haricot m, egg œuf m,
        cake gâteau m, biscuit biscuit m, sandwich sandwich m""",
    "staple": """bread pain m, cheese fromage m, meat viande f, rice riz m, soup soupe f, chocolate chocolat m,
        butter beurre m, honey miel m, jam confiture f""",
    "drink": "water eau f, milk lait m, tea thé m, coffee café m, wine vin m, beer bière f",
    "readable": "book livre m, letter lettre f, newspaper journal m, map carte f",
    "portable": """key clé f, bag sac m, box boîte f, bottle bouteille f, glass verre m, cup tasse f, plate assiette f,
        knife:knives couteau m, spoon cuillère f, pen stylo m, umbrella parapluie m, suitcase valise f, basket panier m,
        lamp lampe f, ball ballon m, doll poupée f, ring bague f, clock horloge f, telephone téléphone m,
        computer ordinateur m, painting tableau m, ticket billet m""",
    "wearable": "hat chapeau m, coat manteau m, shirt chemise f, dress robe f, shoe chaussure f",
    "furniture": "table table f, chair chaise f, bed lit m, mirror miroir m",
    "structure": "door porte f, window fenêtre f, wall mur m, roof toit m",
    "plant": "flower fleur f, tree arbre m",
    "vehicle": "car voiture f, bicycle vélo m, boat bateau m, train train m, bus bus m, plane avion m",
    "instrument": "guitar guitare f, piano piano m, violin violon m, flute flûte f",
    "place": """garden jardin m, kitchen cuisine f, house maison f, school école f, church église f, market marché m,
        park parc m, station gare f, library bibliothèque f, museum musée m, hospital hôpital m,
        restaurant restaurant m, hotel hôtel m, shop magasin m, bakery boulangerie f, beach plage f,
        forest forêt f, mountain montagne f, river rivière f, lake lac m, village village m, city ville f,
        street rue f, bridge pont m, castle château m, island île f, farm ferme f, office bureau m, cinema cinéma m,
        theatre théâtre m, airport aéroport m, university université f, field champ m""",
}

_KINDS = {
    "acquaintance": "neighbour friend teacher doctor lawyer",
    "profession": "teacher doctor writer engineer painter",
    "food": "morsel staple",
    "fruit": "apple orange pear cherry strawberry tomato lemon",
    "dish": "cake soup sandwich coffee tea",
    "written": "letter book",
    "container": "bag box bottle glass cup plate suitcase basket",
    "openable": "door window box bottle bag suitcase letter",
    "fragile": "glass cup plate bottle lamp window chair clock mirror doll",
    "machine": "car bicycle boat clock telephone computer lamp door roof chair",
    "washable": "shirt dress coat plate glass cup car window apple",
    "cleanable": "table window kitchen house shoe mirror garden office",
    "paintable": "door wall house boat chair table roof",
    "drawable": "animal flower tree house castle boat bridge",
    "sliceable": "bread cheese meat cake apple onion carrot lemon",
    "coloured": "wearable container vehicle door wall house chair table flower pen umbrella lamp",
    "ride": "car bicycle boat",
    "thing": "readable portable wearable",
    "object": "readable portable wearable furniture ride instrument",
    "ware": "thing ride instrument food drink",
    "building": """house school church library museum hospital restaurant hotel shop bakery castle office cinema theatre
        university""",
    "sight": "museum castle city village island church library farm park",
    "anything": "object plant structure place",
}

_LEADING = """
small petit     | boy girl child animal morsel object plant structure place
big grand       | dog horse bear elephant object plant structure place
beautiful beau  | man woman child queen actress animal wearable plant instrument painting boat place
old vieux       | man woman teacher doctor farmer king queen friend painter singer animal object tree door wall place
new nouveau     | object building acquaintance
young jeune     | person animal
good bon        | food drink readable restaurant hotel
bad mauvais     | food drink restaurant hotel
pretty joli     | girl woman wearable flower lamp ring cup house garden village street island
nice gentil     | boy girl child student teacher doctor nurse baker farmer waiter neighbour friend tourist kin
long long       | letter book dress street bridge river
"""

_TRAILING = """
tired fatigué            | person kin animal
sick malade              | person kin animal
strong fort              | person kin horse bear donkey elephant
lazy paresseux           | person kin cat dog donkey
curious curieux          | person kin cat goat bird fox
nervous nerveux          | person kin animal
intelligent intelligent  | person kin animal
happy heureux            | person kin
sad triste               | person kin
rich riche               | person kin
polite poli              | person kin
proud fier               | person kin
shy timide               | person kin
honest honnête           | person kin
careful prudent          | person kin
jealous jaloux           | person kin
brave courageux          | person kin
busy occupé              | person kin
famous célèbre           | singer writer actress painter museum restaurant castle hotel beach bridge painting
French français          | singer writer painter car wine cheese restaurant tourist bread
Italian italien          | singer writer painter car wine cheese restaurant tourist coffee
Spanish espagnol         | singer writer painter guitar wine cheese restaurant tourist
German allemand          | singer writer painter car beer restaurant tourist train
red rouge                | coloured
blue bleu                | coloured
green vert               | coloured
yellow jaune             | coloured
white blanc              | coloured cat horse rabbit hen
black noir               | coloured cat horse dog cow
heavy lourd              | bag box bottle suitcase basket table clock door book computer
empty vide               | container house school church restaurant hotel theatre beach street train bus
full plein               | container restaurant hotel theatre train bus
expensive cher           | painting wearable ring clock computer furniture ride instrument hotel restaurant meat wine
useful utile             | map knife key computer bicycle umbrella book telephone
broken cassé             | fragile
dirty sale               | washable cleanable
clean propre             | washable cleanable
strange étrange          | man woman animal readable painting box house castle forest city
modern moderne           | furniture painting lamp building car train
comfortable confortable  | chair bed shoe hotel car house
interesting intéressant  | readable painting museum city writer
noisy bruyant            | dog child street restaurant market vehicle hotel
open ouvert              | openable shop museum bakery library
closed fermé             | openable shop museum bakery library
cold froid               | drink soup kitchen house
hot chaud                | coffee tea milk soup bread
fresh frais              | egg fruit bread milk cheese mushroom
delicious délicieux      | food tea coffee wine beer milk
sweet sucré              | tea coffee cake biscuit orange strawberry cherry
ripe mûr                 | fruit
wet mouillé              | wearable dog cat umbrella
quiet calme              | village street beach garden child library
dangerous dangereux      | wolf bear street river bridge forest mountain
tall grand               |
late en_retard           |
ready prêt               |
"""

_NAMES = """Paul Pierre Marc Antoine Julien Victor Oscar | Marie Sophie Claire Anna Emma Alice Isabelle Laura"""


def _read_nouns() -> dict[str, tuple[Noun, ...]]:
    return {kind: tuple(_read_noun(row, kind) for row in rows.split(",")) for kind, rows in _NOUNS.items()}


def _read_noun(row: str, kind: str) -> Noun:
    names, translations, gender = row.split()
    word, _, many = names.partition(":")
    mot, _, plusieurs = translations.partition(":")
    many, plusieurs = many or english.plural(word), plusieurs or french.noun_plural(mot)
    return Noun(word, many, mot, plusieurs, feminine=gender == "f", mass=kind in {"staple", "drink"})


_BY_KIND = _read_nouns()
NOUNS = {noun.english: noun for nouns in _BY_KIND.values() for noun in nouns}


@cache
def nouns(kinds: str) -> tuple[Noun, ...]:
    """All nouns of some kinds; `kinds` names kinds or single nouns, separated by blanks."""
    found: dict[str, Noun] = {}
    for kind in kinds.split():
        if kind in _BY_KIND:
            found.update((noun.english, noun) for noun in _BY_KIND[kind])
        elif kind in _KINDS:
            found.update((noun.english, noun) for noun in nouns(_KINDS[kind]))
        else:
            found[kind] = NOUNS[kind]
    return tuple(found.values())


def _read_adjectives(table: str, *, leading: bool) -> dict[Adjective, tuple[Noun, ...]]:
    rows: dict[Adjective, tuple[Noun, ...]] = {}
    for line in table.strip().splitlines():
        words, kinds = line.split("|")
        word, mot = words.split()
        rows[Adjective(word, mot.replace("_", " "), leading, fixed="_" in mot)] = nouns(" ".join(kinds.split()))
    return rows


DESCRIBES = _read_adjectives(_LEADING, leading=True) | _read_adjectives(_TRAILING, leading=False)
"""Every adjective with the nouns it may describe."""

ADJECTIVES = {adjective.english: adjective for adjective in DESCRIBES}
NAMES = {
    text: Name(text, feminine)
    for half, feminine in zip(_NAMES.split("|"), (False, True), strict=True)
    for text in half.split()
}


@cache
def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may stand beside a noun; open and closed are left out, to avoid "opens an open door"."""
    fitting = (adjective for adjective, described in DESCRIBES.items() if noun in described)
    return tuple(adjective for adjective in fitting if adjective.english not in {"open", "closed"})
