"""What each example adds: all of them together score as an evaluation does, any choice as a file of it would."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.compare import tally
from weft.metrics import Confusion, SpanTally, TranslationTally

SMALL = {"embedding": 8, "hidden": 8}
MODELS = {
    "classify": SMALL,
    "lm": SMALL,
    "mask": SMALL,
    "tag": SMALL | {"characters": 4},
    "translate": {"encoder": SMALL, "decoder": SMALL},
}


@pytest.fixture
def files(labelled, texts, tagged, pairs):
    return {"classify": labelled, "lm": texts, "mask": texts, "tag": tagged, "translate": pairs}


def train(task, path, out, **data):
    config = {"task": task, "data": {"train": path, **data}, "model": MODELS[task], "train": {"steps": 3}}
    return weft.train(config, out=out, quiet=True)


@pytest.mark.parametrize("task", MODELS)
def test_all_examples_together_score_as_an_evaluation_does(task, files, tmp_path):
    run = train(task, files[task], tmp_path / "run")
    rows, expected = tally(run, files[task]), run.evaluate(files[task])
    found = rows.metrics()
    assert list(found) == list(expected.metrics)
    assert found == pytest.approx(expected.metrics, rel=1e-5)
    assert ("vocabulary" in rows.details) == ("perplexity" in expected.metrics)
    assert list(rows.details) == list(expected.details)
    near = {name: pytest.approx(value) for name, value in expected.details.items() if isinstance(value, float)}
    assert rows.details == expected.details | near


def test_spans_are_scored_where_tags_mark_them(tmp_path):
    draw = random.Random(0)
    lines = []
    for _ in range(60):
        lines += [f"{draw.choice(['Ann', 'Bob'])} B-PER", f"{draw.choice(['Lee', 'Ray'])} I-PER", "runs O", ""]
    (tmp_path / "names.txt").write_text("\n".join(lines), encoding="utf-8")
    run = train("tag", str(tmp_path / "names.txt"), tmp_path / "run", column=1)
    found = tally(run, str(tmp_path / "names.txt")).metrics()
    assert found == pytest.approx(run.evaluate(str(tmp_path / "names.txt")).metrics, rel=1e-5)
    assert "span_f1" in found


def test_pieces_of_a_line_are_one_example(texts, tmp_path):
    run = train("lm", texts, tmp_path / "run", max_length=3)
    rows = tally(run, texts)
    records = rows.by_record()
    assert len(records.numbers) == 150 < len(rows.numbers)
    assert records.metrics() == pytest.approx(rows.metrics())


def test_classes_by_hand():
    """The sums of single rows add up, and any sum is scored as a table of those rows is."""
    each = [Confusion(["a", "b", "c"]) for _ in range(3)]
    for one, gold, predicted in zip(each, (0, 1, -1), (0, 0, 1), strict=True):
        one.add([gold], [predicted])
    total = np.sum([one.sums() for one in each], axis=0)
    # Of a two thirds, of b nothing, and of the label that training never saw nothing either.
    assert Confusion.score(total) == pytest.approx({"accuracy": 1 / 3, "f1": (2 / 3 + 0 + 0) / 3})
    assert Confusion.score(each[0].sums()) == {"accuracy": 1.0, "f1": 1.0}
    whole = each[0]
    whole.merge(each[1])
    whole.merge(each[2])
    assert whole.sums().tolist() == total.tolist()
    assert {"accuracy": whole.accuracy, "f1": whole.f1} == Confusion.score(total)


def test_spans_by_hand():
    sentences = [(["B-X", "I-X", "O"], ["B-X", "O", "O"]), (["B-X", "O", "B-Y"], ["B-X", "O", "B-Y"])]
    each, whole = [SpanTally(), SpanTally()], SpanTally()
    for one, sentence in zip(each, sentences, strict=True):
        one.add(*sentence)
        whole.merge(one)
    assert [one.sums() for one in each] == [(0, 1, 1), (2, 2, 2)]
    assert whole.sums() == (2, 3, 3)
    assert whole.f1 == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_drawn_sentences_score_as_a_corpus_of_them(name):
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    draw = random.Random(1)
    words = ["the", "old", "cat", "sat", "on", "a", "red", "mat", "and", "saw", "two", "small", "dogs"]
    references = [" ".join(draw.choices(words, k=draw.randint(5, 12))) for _ in range(40)]
    hypotheses = [
        " ".join(word if draw.random() < 0.9 else draw.choice(words) for word in text.split()) for text in references
    ]
    each = [TranslationTally() for _ in references]
    for one, hypothesis, reference in zip(each, hypotheses, references, strict=True):
        one.add(hypothesis, reference)
    metric = {"bleu": lambda: BLEU(force=True), "chrf": CHRF}[name]
    chosen = np.random.default_rng(0).integers(40, size=40)
    weights = np.bincount(chosen, minlength=40).astype(float)
    corpus = metric().corpus_score([hypotheses[row] for row in chosen], [[references[row] for row in chosen]])
    drawn = TranslationTally.score(weights @ np.stack([one.sums() for one in each]))
    assert drawn[name] == pytest.approx(corpus.score)
    equal = [hypotheses[row] == references[row] for row in chosen]
    assert drawn["exact"] == pytest.approx(np.mean(equal))


def test_labels_that_training_never_saw_count_as_in_an_evaluation(labelled, tmp_path):
    run = train("classify", labelled, tmp_path / "run")
    strange = tmp_path / "strange.tsv"
    lines = Path(labelled).read_text(encoding="utf-8").splitlines()[:20]
    strange.write_text("\n".join([*lines, "a thing\tunheard"]) + "\n", encoding="utf-8")
    assert tally(run, str(strange)).metrics() == pytest.approx(run.evaluate(str(strange)).metrics, rel=1e-5)
