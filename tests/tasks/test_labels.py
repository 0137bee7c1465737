"""Counts of labels as they are shown, tokens that speed is counted in, and simple models beside the network."""

from __future__ import annotations

from typing import Any

import pytest

from weft.data import Labelled, Tagged
from weft.errors import did_you_mean
from weft.metrics import Confusion
from weft.tasks import TASKS, Codec, Facts, Task, encode
from weft.tasks.baselines import text_baselines, word_baselines
from weft.tasks.classify import Classification
from weft.tasks.labels import ClassScores, describe_labels
from weft.text import TextConfig


def test_labels_in_a_line() -> None:
    assert list(describe_labels({"neg": 1200, "pos": 1300}, 2500)) == ["labels: pos 1,300 · neg 1,200"]


def test_a_label_with_line_breaks_is_one_line_of_an_answer() -> None:
    answer = Classification("text", "a\nb\tc", 0.75, {"a\nb\tc": 0.75, "d": 0.25})
    assert answer.line() == r"a\nb\tc"
    assert answer.line(probabilities=True) == "a\\nb\\tc\t0.75\td\t0.25"
    assert answer.record()["label"] == "a\nb\tc"


def test_very_many_labels_make_no_large_report() -> None:
    few, many = (ClassScores(Confusion([f"L{number}" for number in range(count)])) for count in (3, 10_000))
    many.confusion.add([0, 1], [0, 2])
    assert few.details()["confusion"] == [[0] * 3] * 3
    assert "confusion" not in many.details()
    assert len(many.details()["per_class"]) == 3, "only labels that occur"
    assert did_you_mean("nope", map(str, range(10_000))).endswith(" and 9,940 more")


def test_of_many_labels_some() -> None:
    (line,) = describe_labels({f"l{number:02}": 100 + number for number in range(30)}, 3435)
    assert line == "30 labels: l29 129 · l28 128 · l27 127 · l26 126 · l25 125 · l24 124 · … · l01 101 · l00 100"


@pytest.mark.parametrize(
    ("counts", "examples", "words"),
    [
        ({"ham": 97, "spam": 3}, 100, '"ham" is 97.0% of all labels'),
        ({f"a whole sentence {number}": 1 for number in range(90)}, 100, "90 different labels in 100 examples"),
        ({"a": 5, "b": 5, "c": 0}, 10, "no training example is left of c"),
    ],
)
def test_what_looks_wrong(counts: dict[str, int], examples: int, words: str) -> None:
    _, warning = describe_labels(counts, examples)
    assert words in warning


def test_speed_is_counted_in_tokens() -> None:
    records = [Labelled("one two three", "a"), Labelled("four", "b")]
    task = task_of("classify", records, TextConfig(kind="word"))
    batch = task.collate(encode(task, records), [0, 1])
    assert (batch.count, batch.token_count) == (2, 6)  # each text with its end
    sentences = [Tagged(("one", "two"), ("A", "B")), Tagged(("four",), ("A",))]
    tagging = task_of("tag", sentences, TextConfig(kind="word"))
    assert tagging.collate(encode(tagging, sentences), [0, 1]).token_count == 3


def task_of(name: str, records: Any, text: TextConfig) -> Task:
    kind = TASKS[name]
    return kind(kind.learn(records, text), kind.sections.data(train="none"))


def test_simple_models_of_texts() -> None:
    train = [Labelled(f"{colour} thing", "colour") for colour in ("red", "blue") * 10]
    train += [Labelled(f"{animal} thing", "animal") for animal in ("cat", "dog") * 9]
    test = [Labelled("a red thing", "colour"), Labelled("one dog", "animal"), Labelled("what", "unheard")]
    found = text_baselines(Codec({}, ("animal", "colour")), train, {"test": test}, seed=0)
    assert found["test"]["majority"]["accuracy"] == pytest.approx(1 / 3)
    assert found["test"]["bag"]["accuracy"] == pytest.approx(2 / 3)
    assert found["test"]["bag"]["examples"] == 38


def test_the_most_frequent_tag_of_each_word() -> None:
    train = [Tagged(("a", "run"), ("DET", "NOUN")), Tagged(("we", "run"), ("PRON", "VERB"))]
    train += [Tagged(("run", "run"), ("VERB", "VERB"))]
    test = [Tagged(("a", "run", "unheard"), ("DET", "NOUN", "VERB"))]
    found = word_baselines(Codec({}, ("DET", "NOUN", "PRON", "VERB")), train, {"valid": test}, spans=False)
    assert found["valid"]["per_word"]["accuracy"] == pytest.approx(2 / 3)
    assert found["valid"]["majority"]["accuracy"] == pytest.approx(1 / 3)


def test_spans_of_the_most_frequent_tags() -> None:
    train = [Tagged(("Rome", "is", "old"), ("B-LOC", "O", "O"))]
    test = [Tagged(("Rome", "Rome"), ("B-LOC", "O"))]
    found = word_baselines(Codec({}, ("B-LOC", "O")), train, {"valid": test}, spans=True)
    assert found["valid"]["per_word"]["span_f1"] == pytest.approx(2 / 3)
    assert found["valid"]["majority"]["span_f1"] == 0


def test_few_long_texts_are_blurred_more() -> None:
    """They would be known by heart after a few epochs; short texts have no words to spare, and many texts no need."""
    defaults = TASKS["classify"].defaults
    few, short, many = (
        defaults(Facts(examples, examples * mean), {"model": {"kind": "rnn"}})["model"]
        for examples, mean in ((2_000, 1_300), (2_000, 50), (25_000, 1_300))
    )
    assert few["word_dropout"] == 0.3
    assert "word_dropout" not in short
    assert short["dropout"] == many["dropout"] == 0.4
