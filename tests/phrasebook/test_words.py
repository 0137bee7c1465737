"""Word forms of both languages against forms known from any grammar book."""

from __future__ import annotations

import pytest

from weft.phrasebook import english, french
from weft.phrasebook.conjugation import PERSONS, conjugate
from weft.phrasebook.french import GenderNumber
from weft.phrasebook.lexicon import ADJECTIVES, DESCRIBES, NOUNS, nouns
from weft.phrasebook.nominal import inflect
from weft.phrasebook.nounphrase import NUMBERS


@pytest.mark.parametrize(
    ("infinitive", "present"),
    [
        ("manger", "mange mange mangeons mangez mangent"),
        ("commencer", "commence commence commençons commencez commencent"),
        ("acheter", "achète achète achetons achetez achètent"),
        ("appeler", "appelle appelle appelons appelez appellent"),
        ("jeter", "jette jette jetons jetez jettent"),
        ("nettoyer", "nettoie nettoie nettoyons nettoyez nettoient"),
        ("espérer", "espère espère espérons espérez espèrent"),
        ("choisir", "choisis choisit choisissons choisissez choisissent"),
        ("boire", "bois boit buvons buvez boivent"),
        ("aller", "vais va allons allez vont"),
    ],
)
def test_present(infinitive: str, present: str) -> None:
    assert conjugate(infinitive).present == tuple(present.split())


@pytest.mark.parametrize(
    ("infinitive", "person", "imperfect", "future", "participle"),
    [
        ("manger", "je", "mangeais", "mangerai", "mangé"),
        ("manger", "nous", "mangions", "mangerons", "mangé"),
        ("commencer", "il", "commençait", "commencera", "commencé"),
        ("commencer", "vous", "commenciez", "commencerez", "commencé"),
        ("acheter", "ils", "achetaient", "achèteront", "acheté"),
        ("appeler", "nous", "appelions", "appellerons", "appelé"),
        ("nettoyer", "il", "nettoyait", "nettoiera", "nettoyé"),
        ("envoyer", "il", "envoyait", "enverra", "envoyé"),
        ("espérer", "il", "espérait", "espérera", "espéré"),
        ("rire", "nous", "riions", "rirons", "ri"),
        ("choisir", "il", "choisissait", "choisira", "choisi"),
        ("être", "je", "étais", "serai", "été"),
        ("avoir", "ils", "avaient", "auront", "eu"),
        ("voir", "il", "voyait", "verra", "vu"),
        ("peindre", "il", "peignait", "peindra", "peint"),
    ],
)
def test_other_tenses(infinitive: str, person: str, imperfect: str, future: str, participle: str) -> None:
    verb, index = conjugate(infinitive), PERSONS.index(person)
    assert (verb.imperfect(index), verb.future(index), verb.participle) == (imperfect, future, participle)


def test_conditional_and_unknown_verbs() -> None:
    assert conjugate("vouloir").conditional(PERSONS.index("je")) == "voudrais"
    with pytest.raises(ValueError, match="battre"):
        conjugate("battre")


@pytest.mark.parametrize(
    ("adjective", "forms"),
    [
        ("red", "rouge rouge rouges rouges"),
        ("green", "vert verte verts vertes"),
        ("white", "blanc blanche blancs blanches"),
        ("happy", "heureux heureuse heureux heureuses"),
        ("expensive", "cher chère chers chères"),
        ("Italian", "italien italienne italiens italiennes"),
        ("beautiful", "beau belle beaux belles"),
        ("new", "nouveau nouvelle nouveaux nouvelles"),
        ("old", "vieux vieille vieux vieilles"),
        ("bad", "mauvais mauvaise mauvais mauvaises"),
        ("good", "bon bonne bons bonnes"),
        ("long", "long longue longs longues"),
        ("nice", "gentil gentille gentils gentilles"),
        ("fresh", "frais fraîche frais fraîches"),
        ("jealous", "jaloux jalouse jaloux jalouses"),
        ("blue", "bleu bleue bleus bleues"),
    ],
)
def test_adjective_forms(adjective: str, forms: str) -> None:
    agreements = [GenderNumber(feminine, plural) for plural in (False, True) for feminine in (False, True)]
    assert " ".join(inflect(ADJECTIVES[adjective], agreement) for agreement in agreements) == forms


def test_adjectives_that_never_change() -> None:
    assert inflect(ADJECTIVES["late"], GenderNumber(feminine=True, plural=True)) == "en retard"


@pytest.mark.parametrize(
    ("noun", "many", "plusieurs"),
    [
        ("box", "boxes", "boîtes"),
        ("cherry", "cherries", "cerises"),
        ("boy", "boys", "garçons"),
        ("woman", "women", "femmes"),
        ("mouse", "mice", "souris"),
        ("horse", "horses", "chevaux"),
        ("newspaper", "newspapers", "journaux"),
        ("bird", "birds", "oiseaux"),
        ("owl", "owls", "hiboux"),
        ("son", "sons", "fils"),
        ("grandmother", "grandmothers", "grands-mères"),
        ("church", "churches", "églises"),
    ],
)
def test_noun_plurals(noun: str, many: str, plusieurs: str) -> None:
    assert (NOUNS[noun].english_plural, NOUNS[noun].french_plural) == (many, plusieurs)


@pytest.mark.parametrize(
    ("base", "third", "past", "participle", "gerund"),
    [
        ("go", "goes", "went", "gone", "going"),
        ("watch", "watches", "watched", "watched", "watching"),
        ("carry", "carries", "carried", "carried", "carrying"),
        ("play", "plays", "played", "played", "playing"),
        ("write", "writes", "wrote", "written", "writing"),
        ("see", "sees", "saw", "seen", "seeing"),
        ("run", "runs", "ran", "run", "running"),
        ("open", "opens", "opened", "opened", "opening"),
        ("travel", "travels", "travelled", "travelled", "travelling"),
        ("have", "has", "had", "had", "having"),
    ],
)
def test_english_verbs(base: str, third: str, past: str, participle: str, gerund: str) -> None:
    forms = (english.third_person(base), english.past(base), english.participle(base), english.gerund(base))
    assert forms == (third, past, participle, gerund)


def test_a_or_an() -> None:
    assert [english.article(word) for word in ("apple", "bear", "honest", "university", "useful", "old")] == [
        "an", "a", "an", "a", "a", "an",
    ]  # fmt: skip


def test_elision_stops_before_an_aspirated_h() -> None:
    assert french.join(("le", "hamster", "de", "le")) == "le hamster de le"
    assert french.join(("le", "homme", "que", "elle", "aime", ".")) == "l'homme qu'elle aime."
    assert french.join(("je", "ne", "y", "vais", "pas", "!")) == "je n'y vais pas !"
    assert french.join(("de", "onze", "à", "huit")) == "de onze à huit"
    assert french.join(("si", "il", "et", "si", "elle")) == "s'il et si elle"


def test_contraction_gives_way_to_elision() -> None:
    assert french.contract("de", ("le", "lac")) == ("du", "lac")
    assert french.contract("de", ("le", "hôtel")) == ("de", "le", "hôtel")
    assert french.contract("à", ("les", "amis")) == ("aux", "amis")
    assert french.contract("à", ("la", "gare")) == ("à", "la", "gare")
    assert french.contract("dans", ("le", "lac")) == ("dans", "le", "lac")


def test_the_lexicon_holds_together() -> None:
    assert len(NUMBERS) == 21
    assert NUMBERS["seventeen"] == "dix-sept"
    assert nouns("fruit bread fruit") == (*nouns("fruit"), NOUNS["bread"])
    undescribed = [
        noun.english for noun in NOUNS.values() if not any(noun in fitting for fitting in DESCRIBES.values())
    ]
    assert not undescribed
