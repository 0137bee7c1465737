"""Noun phrases worked out by hand: determiners, adjectives, numbers, owners, and the prepositions before them."""

from __future__ import annotations

import pytest

from weft.phrasebook import english, french
from weft.phrasebook.lexicon import ADJECTIVES, NAMES, NOUNS
from weft.phrasebook.nominal import Nominal, Piece, both, named, pronoun_for
from weft.phrasebook.nounphrase import measure, noun_phrase, owned, prepositional

PAUL, ANNA = named(NAMES["Paul"]), named(NAMES["Anna"])


def np(determiner: str, noun: str, adjective: str = "", *, plural: bool = False, negated: bool = False) -> Nominal:
    beside = ADJECTIVES[adjective] if adjective else None
    return noun_phrase(NOUNS[noun], determiner, beside, plural=plural, negated=negated)


def check(content: Nominal | Piece, words: str, mots: str) -> None:
    assert english.join(tuple(word.text for word in content.english)) == words
    assert french.join(content.french) == mots


def test_articles() -> None:
    check(np("the", "lake"), "the lake", "le lac")
    check(np("the", "school"), "the school", "l'école")
    check(np("the", "man"), "the man", "l'homme")
    check(np("the", "hamster"), "the hamster", "le hamster")
    check(np("the", "bird", plural=True), "the birds", "les oiseaux")
    check(np("a", "apple"), "an apple", "une pomme")
    check(np("a", "university"), "a university", "une université")
    check(np("bare", "cat", plural=True), "cats", "les chats")
    check(np("bare", "water"), "water", "l'eau")


def test_partitive() -> None:
    check(np("some", "bread"), "some bread", "du pain")
    check(np("some", "meat"), "some meat", "de la viande")
    check(np("some", "water"), "some water", "de l'eau")
    check(np("some", "wine", "good"), "some good wine", "du bon vin")
    check(np("some", "egg", plural=True), "some eggs", "des œufs")
    check(np("some", "car", "red", plural=True), "some red cars", "des voitures rouges")
    check(np("some", "tree", "beautiful", plural=True), "some beautiful trees", "de beaux arbres")


def test_only_de_remains_under_negation() -> None:
    check(np("a", "car", negated=True), "a car", "de voiture")
    check(np("any", "water", negated=True), "any water", "d'eau")
    check(np("any", "bean", plural=True, negated=True), "any beans", "de haricots")
    check(np("the", "car", negated=True), "the car", "la voiture")
    check(np("no", "honey"), "no honey", "de miel")


def test_quantities() -> None:
    check(np("many", "orange", plural=True), "many oranges", "beaucoup d'oranges")
    check(np("a lot of", "milk"), "a lot of milk", "beaucoup de lait")
    check(np("several", "newspaper", plural=True), "several newspapers", "plusieurs journaux")
    check(np("a few", "knife", plural=True), "a few knives", "quelques couteaux")
    check(np("all the", "cow", plural=True), "all the cows", "toutes les vaches")
    check(np("every", "child"), "every child", "chaque enfant")
    check(np("eleven", "horse", "black", plural=True), "eleven black horses", "onze chevaux noirs")
    check(measure(np("a", "glass"), NOUNS["water"]), "a glass of water", "un verre d'eau")
    check(measure(np("two", "basket", plural=True), NOUNS["pear"]), "two baskets of pears", "deux paniers de poires")


def test_adjectives_agree_and_find_their_place() -> None:
    check(np("a", "house", "white"), "a white house", "une maison blanche")
    check(np("the", "girl", "jealous", plural=True), "the jealous girls", "les filles jalouses")
    check(np("a", "tree", "beautiful"), "a beautiful tree", "un bel arbre")
    check(np("the", "friend", "old"), "the old friend", "le vieil ami")
    check(np("a", "hotel", "new"), "a new hotel", "un nouvel hôtel")
    check(np("a", "owl", "old"), "an old owl", "un vieux hibou")
    check(np("the", "church", "old"), "the old church", "la vieille église")
    check(np("the", "friend", "old", plural=True), "the old friends", "les vieux amis")


def test_possessives_and_demonstratives() -> None:
    check(np("my", "island"), "my island", "mon île")
    check(np("my", "island", "beautiful"), "my beautiful island", "ma belle île")
    check(np("her", "mother"), "her mother", "sa mère")
    check(np("his", "aunt"), "his aunt", "sa tante")
    check(np("their", "child", plural=True), "their children", "leurs enfants")
    check(np("your", "key", plural=True), "your keys", "vos clés")
    check(np("this", "man"), "this man", "cet homme")
    check(np("this", "man", "young"), "this young man", "ce jeune homme")
    check(np("that", "woman", plural=True), "those women", "ces femmes")
    check(np("which", "dress", plural=True), "which dresses", "quelles robes")


def test_owners() -> None:
    check(owned(PAUL, NOUNS["car"]), "Paul's car", "la voiture de Paul")
    check(owned(ANNA, NOUNS["car"], ADJECTIVES["black"]), "Anna's black car", "la voiture noire d'Anna")
    check(owned(np("the", "doctor"), NOUNS["key"], plural=True), "the doctor's keys", "les clés du médecin")
    check(owned(np("my", "sister"), NOUNS["dog"]), "my sister's dog", "le chien de ma sœur")


@pytest.mark.parametrize(
    ("preposition", "noun", "words", "mots"),
    [
        ("to/ADP", "market", "to the market", "au marché"),
        ("to/ADP", "school", "to the school", "à l'école"),
        ("at/ADP", "station", "at the station", "à la gare"),
        ("from/ADP", "castle", "from the castle", "du château"),
        ("from/ADP", "office", "from the office", "du bureau"),
        ("near/ADP", "lake", "near the lake", "près du lac"),
        ("near/ADP", "church", "near the church", "près de l'église"),
        ("in/ADP front/NOUN of/ADP", "hotel", "in front of the hotel", "devant l'hôtel"),
        ("on/ADP", "table", "on the table", "sur la table"),
    ],
)
def test_prepositions(preposition: str, noun: str, words: str, mots: str) -> None:
    check(prepositional(preposition, np("the", noun)), words, mots)


def test_plural_articles_contract() -> None:
    check(prepositional("to/ADP", np("the", "child", plural=True)), "to the children", "aux enfants")
    check(prepositional("from/ADP", np("the", "friend", plural=True)), "from the friends", "des amis")


def test_two_together_are_masculine_unless_both_are_not() -> None:
    assert both(PAUL, ANNA).agreement == (False, True)
    assert both(ANNA, np("my", "aunt")).agreement == (True, True)
    check(both(ANNA, np("my", "aunt")), "Anna and my aunt", "Anna et ma tante")


def test_subjects_are_taken_up_by_their_pronoun() -> None:
    taken = [pronoun_for(nominal).english_object for nominal in (PAUL, ANNA, np("the", "man", plural=True))]
    assert taken == ["him", "her", "them"]
