"""Sentences worked out by hand, built from the grammar's own parts: at least one for each rule of either language."""

from __future__ import annotations

import pytest

from weft.phrasebook import adjuncts, verbs
from weft.phrasebook.clause import AmbiguousError, Clause, Clitic, Tense, direct, indirect, statement, taking_up
from weft.phrasebook.clause import question as asked
from weft.phrasebook.descriptions import compared, described, there_is
from weft.phrasebook.english import Word
from weft.phrasebook.lexicon import ADJECTIVES, NAMES, NOUNS
from weft.phrasebook.linked import AND, BECAUSE, IF, THAT, WHEN, that_one_does, who_does
from weft.phrasebook.nominal import COMMA, IT, NOBODY, NOTHING, PRONOUNS, WHO, Nominal, Piece, both, named, piece
from weft.phrasebook.nominal import stressed as stressed_after
from weft.phrasebook.nounphrase import governed, noun_phrase, prepositional
from weft.phrasebook.questions import PLEASE, WHAT, WHY, asked_object, command, where_is
from weft.phrasebook.sentence import sentence
from weft.phrasebook.verbs import BE, BE_IN_STATE, MODALS, Verb

VERBS = verbs.TRANSITIVE | verbs.INTRANSITIVE | verbs.DAILY | verbs.MOTION | verbs.STATIVE | verbs.DATIVE
PAUL, ANNA, MARIE, SOPHIE = (named(NAMES[name]) for name in ("Paul", "Anna", "Marie", "Sophie"))
IN_PARIS = piece("in/ADP Paris/PROPN", "à Paris")
ME, HE, SHE, WE, YOU, THEY = (PRONOUNS[word].subject for word in ("I", "he", "she", "we", "you", "they"))
HIM, HER, THEM = (PRONOUNS[word] for word in ("he", "she", "they"))


def np(determiner: str, noun: str, adjective: str = "", *, plural: bool = False, negated: bool = False) -> Nominal:
    beside = ADJECTIVES[adjective] if adjective else None
    return noun_phrase(NOUNS[noun], determiner, beside, plural=plural, negated=negated)


def does(
    subject: Nominal,
    verb: str | Verb,
    tail: Nominal | Piece = NOTHING,
    *clitics: Clitic,
    tense: Tense = "present",
    negation: str = "",
    modal: str = "",
    adverb: Piece = NOTHING,
) -> Clause:
    found = VERBS[verb] if isinstance(verb, str) else verb
    return Clause(
        subject=subject,
        verb=found,
        tense=tense,
        negation=negation,
        modal=MODALS[modal] if modal else None,
        adverb=adverb,
        clitics=clitics,
        tail=governed(found, tail) if isinstance(tail, Nominal) else tail,
    )


def being(subject: Nominal, adjective: str, *, tense: Tense = "present", negation: str = "") -> Clause:
    return does(subject, BE, described(ADJECTIVES[adjective], subject), tense=tense, negation=negation)


def check(content: Clause | Piece, english: str, french: str) -> None:
    """The content says both sentences; the mark is taken from the English."""
    phrase = sentence(statement(content) if isinstance(content, Clause) else content, english[-1])
    assert (phrase.english, phrase.french) == (english, french)


def test_present_and_elided_subject() -> None:
    check(does(HE, "eat", np("a", "apple")), "He eats an apple.", "Il mange une pomme.")
    check(does(ME, "open", np("the", "door")), "I open the door.", "J'ouvre la porte.")
    check(does(WE, "eat", np("the", "cake")), "We eat the cake.", "Nous mangeons le gâteau.")
    check(does(ANNA, "write", np("a", "book"), tense="progressive"), "Anna is writing a book.", "Anna écrit un livre.")


def test_compound_past_with_avoir_and_etre() -> None:
    check(does(PAUL, "eat", np("the", "soup"), tense="past"), "Paul ate the soup.", "Paul a mangé la soupe.")
    check(does(ANNA, "arrive", IN_PARIS, tense="past"), "Anna arrived in Paris.", "Anna est arrivée à Paris.")
    check(does(np("the", "girl", plural=True), "leave", tense="past"), "The girls left.", "Les filles sont parties.")
    check(
        does(both(MARIE, SOPHIE), "stay", adjuncts.AT_HOME, tense="past"),
        "Marie and Sophie stayed at home.",
        "Marie et Sophie sont restées à la maison.",
    )
    check(
        does(both(PAUL, SOPHIE), "go out", tense="perfect"),
        "Paul and Sophie have gone out.",
        "Paul et Sophie sont sortis.",
    )


def test_reflexive_verbs() -> None:
    check(does(WE, "get up", tense="past"), "We got up.", "Nous nous sommes levés.")
    check(
        does(SHE, "fall asleep", tense="past", negation="not"),
        "She did not fall asleep.",
        "Elle ne s'est pas endormie.",
    )
    check(does(ME, "rest", modal="must"), "I must rest.", "Je dois me reposer.")
    check(does(THEY, "sit down", tense="going"), "They are going to sit down.", "Ils vont s'asseoir.")


def test_imperfect_and_future() -> None:
    check(does(PAUL, "know", np("the", "king"), tense="past"), "Paul knew the king.", "Paul connaissait le roi.")
    check(does(ME, "travel", tense="used to"), "I used to travel.", "Je voyageais.")
    check(does(SHE, "read", np("a", "map"), tense="was doing"), "She was reading a map.", "Elle lisait une carte.")
    check(does(YOU, "come back", tense="future"), "You will come back.", "Vous reviendrez.")
    check(does(HE, "send", np("the", "letter"), tense="future"), "He will send the letter.", "Il enverra la lettre.")


def test_negation() -> None:
    check(does(ME, "love", np("the", "city"), negation="not"), "I do not love the city.", "Je n'adore pas la ville.")
    check(does(PAUL, "sing", negation="never"), "Paul never sings.", "Paul ne chante jamais.")
    check(does(ANNA, "work", negation="no longer"), "Anna no longer works.", "Anna ne travaille plus.")
    check(
        does(THEY, "eat", np("the", "egg"), tense="perfect", negation="not yet"),
        "They have not yet eaten the egg.",
        "Ils n'ont pas encore mangé l'œuf.",
    )
    check(does(NOBODY, "sleep", tense="past", negation="nobody"), "Nobody slept.", "Personne n'a dormi.")
    nothing = piece("nothing/PRON", "")
    check(does(HE, "find", nothing, tense="past", negation="nothing"), "He found nothing.", "Il n'a rien trouvé.")
    check(does(SHE, "swim", modal="can", negation="not"), "She cannot swim.", "Elle ne peut pas nager.")


def test_verbs_bring_their_prepositions() -> None:
    check(does(ME, "be afraid of", np("the", "bear", plural=True)), "I am afraid of the bears.", "J'ai peur des ours.")
    check(does(ME, "need", np("a", "umbrella")), "I need an umbrella.", "J'ai besoin d'un parapluie.")
    check(does(ME, "need", np("the", "book")), "I need the book.", "J'ai besoin du livre.")
    check(does(SHE, verbs.PLAY_INSTRUMENT, np("the", "piano")), "She plays the piano.", "Elle joue du piano.")
    gift = np("the", "key").piece + prepositional("to/ADP", np("the", "child", plural=True))
    check(does(SHE, "give", gift), "She gives the key to the children.", "Elle donne la clé aux enfants.")
    car = np("a", "car", negated=True)
    check(does(WE, "have", car, negation="not"), "We do not have a car.", "Nous n'avons pas de voiture.")


def test_adjectives_agree_with_the_subject() -> None:
    check(being(np("the", "girl", plural=True), "happy"), "The girls are happy.", "Les filles sont heureuses.")
    check(being(MARIE, "late", tense="past"), "Marie was late.", "Marie était en retard.")
    check(being(SHE, "tired", negation="never"), "She is never tired.", "Elle n'est jamais fatiguée.")


def test_object_pronouns_stand_before_the_verb_and_make_participles_agree() -> None:
    check(does(HE, "see", NOTHING, direct(HER)), "He sees her.", "Il la voit.")
    check(does(HE, "see", NOTHING, direct(HER), tense="past"), "He saw her.", "Il l'a vue.")
    check(
        does(ME, "look for", NOTHING, direct(THEM), negation="not"), "I do not look for them.", "Je ne les cherche pas."
    )
    check(does(SHE, "help", NOTHING, direct(HIM), modal="want"), "She wants to help him.", "Elle veut l'aider.")
    check(
        does(ME, "meet", NOTHING, direct(HIM), modal="try", tense="past"),
        "I tried to meet him.",
        "J'ai essayé de le rencontrer.",
    )
    book = np("the", "book")
    check(does(ME, "show", book, indirect(HER), tense="past"), "I showed her the book.", "Je lui ai montré le livre.")
    check(does(WE, "send", book, indirect(THEM)), "We send them the book.", "Nous leur envoyons le livre.")
    check(
        does(HE, "dance", stressed_after(piece("with/ADP", "avec"), THEM)), "He dances with them.", "Il danse avec eux."
    )


def test_it_takes_the_gender_of_what_it_stands_for() -> None:
    apple = np("a", "apple")
    bought = statement(does(ANNA, "buy", apple, tense="past"))
    ate = statement(does(SHE, "eat", NOTHING, taking_up(apple.agreement), tense="past"))
    check(bought + AND + ate, "Anna bought an apple and she ate it.", "Anna a acheté une pomme et elle l'a mangée.")
    cakes = np("some", "cake", plural=True)
    buys = statement(does(PAUL, "buy", cakes, tense="future"))
    eats = statement(does(HE, "eat", NOTHING, taking_up(cakes.agreement), tense="future"))
    check(
        buys + AND + eats,
        "Paul will buy some cakes and he will eat them.",
        "Paul achètera des gâteaux et il les mangera.",
    )


def test_modals() -> None:
    check(
        does(ME, "visit", np("the", "museum"), modal="would like"),
        "I would like to visit the museum.",
        "Je voudrais visiter le musée.",
    )
    check(
        does(HE, "enter", np("the", "shop"), modal="forget", tense="past"),
        "He forgot to enter the shop.",
        "Il a oublié d'entrer dans le magasin.",
    )
    check(does(WE, "swim", modal="learn", tense="past"), "We learned to swim.", "Nous avons appris à nager.")


def test_states_ages_and_weather() -> None:
    check(does(ME, BE_IN_STATE, piece("hungry/ADJ", "faim")), "I am hungry.", "J'ai faim.")
    check(
        does(SHE, BE_IN_STATE, piece("ten/NUM years/NOUN old/ADJ", "dix ans"), tense="future"),
        "She will be ten years old.",
        "Elle aura dix ans.",
    )
    check(does(IT, verbs.BE_WEATHER, piece("cold/ADJ", "froid"), tense="past"), "It was cold.", "Il faisait froid.")
    check(does(IT, verbs.RAIN, tense="past"), "It rained.", "Il a plu.")


def test_there_is() -> None:
    on_table = prepositional("on/ADP", np("the", "table"))
    check(
        there_is(np("two", "cup", plural=True), "present", on_table),
        "There are two cups on the table.",
        "Il y a deux tasses sur la table.",
    )
    check(there_is(np("no", "honey"), "present", NOTHING, "no"), "There is no honey.", "Il n'y a pas de miel.")
    assert there_is(np("a", "cup"), "present", NOTHING).english[:2] == (Word("there", "PRON"), Word("is", "VERB"))


def test_comparison() -> None:
    check(
        does(SHE, BE, compared(ADJECTIVES["tall"], SHE, ANNA.piece)),
        "She is taller than Anna.",
        "Elle est plus grande qu'Anna.",
    )
    soup = np("this", "soup")
    check(
        does(soup, BE, compared(ADJECTIVES["good"], soup, np("my", "soup").piece)),
        "This soup is better than my soup.",
        "Cette soupe est meilleure que ma soupe.",
    )
    him = stressed_after(NOTHING, HIM)
    check(
        does(WE, BE, compared(ADJECTIVES["rich"], WE, him, "as")),
        "We are as rich as him.",
        "Nous sommes aussi riches que lui.",
    )
    check(
        does(HE, BE, compared(ADJECTIVES["polite"], HE, PAUL.piece, "less")),
        "He is less polite than Paul.",
        "Il est moins poli que Paul.",
    )


def test_questions() -> None:
    check(asked(does(HE, "sleep")), "Does he sleep?", "Est-ce qu'il dort ?")
    check(asked(does(YOU, "have", np("any", "milk"))), "Do you have any milk?", "Est-ce que vous avez du lait ?")
    check(asked(does(ANNA, "drink", tense="progressive"), WHAT), "What is Anna drinking?", "Qu'est-ce qu'Anna boit ?")
    check(asked(being(HE, "sad"), WHY), "Why is he sad?", "Pourquoi est-ce qu'il est triste ?")
    check(where_is(np("the", "key", plural=True)), "Where are the keys?", "Où sont les clés ?")
    check(does(WHO, "open", np("the", "box"), tense="past"), "Who opened the box?", "Qui a ouvert la boîte ?")
    letters = np("how many", "letter", plural=True)
    check(
        asked_object(VERBS["write"], letters, SHE, "past"),
        "How many letters did she write?",
        "Combien de lettres est-ce qu'elle a écrites ?",
    )
    check(
        asked_object(VERBS["read"], np("which", "book"), HE, "future"),
        "Which book will he read?",
        "Quel livre est-ce qu'il lira ?",
    )


def test_commands() -> None:
    check(command(VERBS["open"], np("the", "window")), "Open the window!", "Ouvrez la fenêtre !")
    check(
        command(VERBS["open"], np("this", "letter"), negation="not"),
        "Do not open this letter!",
        "N'ouvrez pas cette lettre !",
    )
    check(command(VERBS["eat"], np("the", "cheese"), together=True), "Let us eat the cheese!", "Mangeons le fromage !")
    check(
        command(VERBS["take"], np("a", "chair")) + COMMA + PLEASE,
        "Take a chair, please.",
        "Prenez une chaise, s'il vous plaît.",
    )


def test_relative_clauses() -> None:
    man = np("the", "man")
    who = who_does(man, does(man, verbs.LIVE, IN_PARIS))
    check(being(who, "rich"), "The man who lives in Paris is rich.", "L'homme qui habite à Paris est riche.")
    letter = that_one_does(np("the", "letter"), does(SHE, "write", tense="past"))
    check(being(letter, "long"), "The letter that she wrote is long.", "La lettre qu'elle a écrite est longue.")
    birds = np("the", "bird", plural=True)
    check(
        does(ME, "like", who_does(birds, does(birds, "sing"), human=False)),
        "I like the birds that sing.",
        "J'aime les oiseaux qui chantent.",
    )


def test_subordinate_clauses() -> None:
    rains = statement(does(IT, verbs.RAIN))
    stay = statement(does(WE, "stay", adjuncts.AT_HOME, tense="future"))
    check(IF + rains + COMMA + stay, "If it rains, we will stay at home.", "S'il pleut, nous resterons à la maison.")
    fell = statement(does(HE, "fall", tense="past"))
    check(
        statement(being(PAUL, "sad")) + BECAUSE + fell,
        "Paul is sad because he fell.",
        "Paul est triste parce qu'il est tombé.",
    )
    reading = statement(does(ME, "read", np("a", "book"), tense="was doing"))
    arrived = statement(does(MARIE, "arrive", tense="past"))
    check(
        WHEN + arrived + COMMA + reading,
        "When Marie arrived, I was reading a book.",
        "Quand Marie est arrivée, je lisais un livre.",
    )
    thinks = statement(does(HE, verbs.CLAUSAL["think"]))
    check(
        thinks + THAT + statement(being(ANNA, "tired")),
        "He thinks that Anna is tired.",
        "Il pense qu'Anna est fatiguée.",
    )


def test_adverbs_and_origins() -> None:
    often = adjuncts.OFTEN[0]
    check(does(HE, "eat", np("some", "rice"), adverb=often), "He often eats some rice.", "Il mange souvent du riz.")
    check(
        does(SHE, "eat", np("the", "pear"), tense="perfect", adverb=adjuncts.ALREADY),
        "She has already eaten the pear.",
        "Elle a déjà mangé la poire.",
    )
    check(
        does(ANNA, "come", piece("from/ADP Italy/PROPN", "de Italie")), "Anna comes from Italy.", "Anna vient d'Italie."
    )


@pytest.mark.parametrize("verb", ["read", "cut", "put"])
def test_english_that_could_be_present_or_past_is_refused(verb: str) -> None:
    found = VERBS.get(verb, verbs.PUT)
    with pytest.raises(AmbiguousError, match=verb):
        statement(does(THEY, found, np("the", "book")))
    assert statement(does(THEY, found, np("the", "book"), tense="past"))
    assert statement(does(HE, found, np("the", "book")))


def test_tags_depend_on_use() -> None:
    content = (
        statement(does(HE, verbs.CLAUSAL["know"])) + THAT + statement(does(np("that", "boy"), "swim", modal="want"))
    )
    phrase = sentence(content)
    assert phrase.english == "He knows that that boy wants to swim."
    assert phrase.tags == ("PRON", "VERB", "SCONJ", "DET", "NOUN", "VERB", "PART", "VERB", "PUNCT")
