"""Laws of the whole phrasebook: deterministic, distinct, divided without leaks, and French throughout."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from random import Random

import conllu
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.phrasebook import Phrase, Phrasebook, make, write
from weft.phrasebook import english as english_forms
from weft.phrasebook import french as french_forms
from weft.phrasebook.clause import AmbiguousError
from weft.phrasebook.corpus import PATTERNS, draw_phrase
from weft.phrasebook.draw import Draw
from weft.phrasebook.lexicon import NOUNS, Adjective, Noun, adjectives_for
from weft.phrasebook.nounphrase import PREPOSITIONS, noun_phrase, prepositional

UPOS = {
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "VERB",
}
VOWEL = r"(?:[aeiouàâéèêëîïôùûœ]|h(?!amster|ibou|aricot|uit))"
FORBIDDEN_FRENCH = [
    rf"\b(?:je|me|se|le|la|ne|de|que) (?!onze\b){VOWEL}",
    rf"\b(?:ma|sa|ce) {VOWEL}",
    rf"\b(?:le|un|ce|du|au|mon|son|notre|votre|leur) (?:beau|nouveau|vieux) {VOWEL}",
    r"\b(?:de|à) les? ",
    r"\bd[eu]s? (?:du|des)\b",
    r"\bsi ils?\b",
    r"  |\s[.,]|[^ ][?!]|’",
]


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return make(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("phrasebook") / "deep"


@pytest.fixture(scope="module")
def files(folder: Path) -> list[Path]:
    return write(str(folder))


@pytest.fixture(scope="module")
def phrases(book: Phrasebook) -> tuple[Phrase, ...]:
    return book.train + book.valid + book.test


def test_the_parts_are_large_and_distinct(book: Phrasebook, phrases: tuple[Phrase, ...]) -> None:
    assert (len(book.train), len(book.valid), len(book.test)) == (34_000, 1_000, 1_000)
    assert len({phrase.english for phrase in phrases}) == len(phrases)
    assert all(3 <= len(phrase.words) - 1 <= 16 for phrase in phrases)
    reviews = book.reviews.train + book.reviews.valid + book.reviews.test
    assert len({review.text for review in reviews}) == len(reviews) == 9_000


def test_every_form_of_valid_and_test_occurs_in_train(book: Phrasebook) -> None:
    for side in ("english", "french"):
        known = {form for phrase in book.train for form in getattr(phrase, side).split()}
        for phrase in book.valid + book.test:
            assert known.issuperset(getattr(phrase, side).split()), phrase
    known = {word for phrase in book.train for word in phrase.words}
    assert all(known.issuperset(phrase.words) for phrase in book.valid + book.test)
    known = {form for review in book.reviews.train for form in review.text.split()}
    assert all(known.issuperset(review.text.split()) for review in book.reviews.valid + book.reviews.test)


def test_english_decides_the_french(phrases: tuple[Phrase, ...]) -> None:
    french = {phrase.english: phrase.french for phrase in phrases}
    random = Random(99)
    for _ in range(10_000):
        phrase = draw_phrase(random)
        assert french.setdefault(phrase.english, phrase.french) == phrase.french


def test_words_and_tags_belong_to_the_text(phrases: tuple[Phrase, ...]) -> None:
    for phrase in phrases:
        assert len(phrase.words) == len(phrase.tags)
        assert english_forms.join(phrase.words) == phrase.english
    assert {tag for phrase in phrases for tag in phrase.tags} == UPOS


@pytest.mark.parametrize("pattern", FORBIDDEN_FRENCH)
def test_no_french_sentence_breaks_a_rule_of_spelling(pattern: str, phrases: tuple[Phrase, ...]) -> None:
    rule = re.compile(pattern)
    broken = [phrase.french for phrase in phrases if rule.search(phrase.french[0].lower() + phrase.french[1:])]
    assert not broken


def test_every_negation_has_two_parts(phrases: tuple[Phrase, ...]) -> None:
    second = re.compile(r"\b(?:pas|jamais|plus|rien|personne)\b", re.IGNORECASE)
    negated = [phrase.french for phrase in phrases if re.search(r"\b[Nn](?:e |')", phrase.french)]
    assert len(negated) > 3_000
    assert all(second.search(text) for text in negated)


def test_english_articles_fit(phrases: tuple[Phrase, ...]) -> None:
    wrong = re.compile(r"\ba (?:[aeio]|u(?!niversity|seful)|honest)|\ban (?:[^aeiouh]|h(?!onest))", re.IGNORECASE)
    assert not [phrase.english for phrase in phrases if wrong.search(phrase.english)]


def test_both_sides_begin_and_end_as_sentences(phrases: tuple[Phrase, ...]) -> None:
    for phrase in phrases:
        assert phrase.english[0].isupper()
        assert phrase.french[0].isupper()
        assert phrase.english[-1] == phrase.french[-1] in ".?!"


def test_labels_are_balanced_and_texts_have_one_label(book: Phrasebook) -> None:
    for part in (book.reviews.train, book.reviews.valid, book.reviews.test):
        counts = Counter(review.label for review in part)
        assert set(counts) == {"positive", "negative"}
        assert 0.45 <= counts["positive"] / len(part) <= 0.55


def test_no_single_word_gives_a_review_away(book: Phrasebook) -> None:
    """not, but, never, loved and hated stand in both kinds of review."""
    kinds: dict[str, set[str]] = {}
    for review in book.reviews.train:
        for word in re.findall(r"[a-z]+", review.text.lower()):
            kinds.setdefault(word, set()).add(review.label)
    assert all(len(kinds[word]) == 2 for word in ("not", "but", "never", "loved", "hated", "boring", "delicious"))


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__.strip("_"))
def test_every_pattern_varies(pattern: type) -> None:
    draw, said = Draw(Random(5)), set()
    for _ in range(40):
        try:
            said.add(pattern(draw).english)
        except AmbiguousError:
            continue
    assert len(said) > 25


def described_nouns() -> st.SearchStrategy[tuple[Noun, Adjective]]:
    return st.sampled_from([(noun, beside) for noun in NOUNS.values() for beside in adjectives_for(noun)])


@given(
    described=described_nouns(),
    determiner=st.sampled_from(["the", "a", "some", "this", "my", "her", "their", "many", "eleven", "all the"]),
    preposition=st.sampled_from(sorted(PREPOSITIONS)),
)
def test_noun_phrases_obey_the_rules_behind_every_preposition(
    described: tuple[Noun, Adjective], determiner: str, preposition: str
) -> None:
    noun, beside = described
    plural = not noun.mass and determiner in {"some", "many", "eleven", "all the"}
    partitive = determiner == "some" and PREPOSITIONS[preposition].endswith("de")
    if partitive or (noun.mass and determiner in {"a", "eleven", "all the"}):
        determiner = "the"
    piece = prepositional(preposition, noun_phrase(noun, determiner, beside, plural=plural))
    text = french_forms.join(piece.french)
    assert not [rule for rule in FORBIDDEN_FRENCH if re.search(rule, text)], text


def test_a_seed_gives_the_same_bytes_everywhere(files: list[Path]) -> None:
    """A change of the grammar changes this digest, and with it every score that was ever measured on the phrasebook."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert digest == "0f5bca3cfea9c55404ea51e2dd8594d7267dcfdb257175879181e491748c2f78"


def test_another_seed_gives_other_sentences() -> None:
    one, other = Random(1), Random(2)
    assert [draw_phrase(one) for _ in range(20)] != [draw_phrase(other) for _ in range(20)]


def test_files_have_their_places(files: list[Path], folder: Path) -> None:
    assert [str(path.relative_to(folder)) for path in files] == [
        f"{task}/{part}.{kind}"
        for part in ("train", "valid", "test")
        for task, kind in (("translate", "tsv"), ("tag", "conllu"), ("classify", "tsv"), ("lm", "txt"))
    ]
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(files)


def test_files_hold_what_make_gives(book: Phrasebook, files: list[Path], folder: Path) -> None:
    assert files
    pairs = _lines(folder / "translate" / "test.tsv")
    assert pairs == [f"{phrase.english}\t{phrase.french}" for phrase in book.test]
    assert _lines(folder / "lm" / "test.txt") == [phrase.english for phrase in book.test]
    rows = _lines(folder / "classify" / "test.tsv")
    assert rows[0] == "text\tlabel"
    assert rows[1:] == [f"{review.text}\t{review.label}" for review in book.reviews.test]


def test_tags_are_written_as_conllu(book: Phrasebook, files: list[Path], folder: Path) -> None:
    assert files
    sentences = conllu.parse((folder / "tag" / "test.conllu").read_text(encoding="utf-8"))
    assert [tuple(token["form"] for token in parsed) for parsed in sentences] == [p.words for p in book.test]
    assert [tuple(token["upos"] for token in parsed) for parsed in sentences] == [p.tags for p in book.test]
    for parsed in sentences:
        spaced = "".join(token["form"] + ("" if token["misc"] else " ") for token in parsed)
        assert spaced.strip() == parsed.metadata["text"]


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, book: Phrasebook) -> None:
    def refuse(source: Path, target: Path) -> Path:
        raise OSError(f"no room for {target} beside {source}")

    monkeypatch.setattr("weft.phrasebook.files.make", lambda seed: book)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no room"):
        write(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def _lines(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")
