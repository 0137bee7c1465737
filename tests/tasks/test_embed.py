"""Word vectors from a text to the run folder, and what is done with them: neighbours, similarities, analogies."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import weft as weft_package
from weft.compare import compare
from weft.data import read_vectors
from weft.errors import ConfigError, DataError, RunError, WeftError
from weft.metrics import spearman
from weft.models.vectors.fit import VectorFit

ANIMALS = ["cat", "dog", "cow", "fox", "hen", "pig"]
COLOURS = ["red", "blue", "green", "black", "white", "grey"]


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A text in which animals stand beside verbs and colours beside things, and tests of its words."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    lines = []
    for _ in range(300):
        lines.append(f"the {draw.choice(ANIMALS)} {draw.choice(['runs', 'sleeps', 'eats'])} in the field today")
        lines.append(f"a {draw.choice(COLOURS)} {draw.choice(['car', 'house', 'hat'])} costs much money here")
    draw.shuffle(lines)
    Path("train.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    alike = [f"{a}\t{b}\t9" for a, b in zip(ANIMALS, ANIMALS[1:] + ANIMALS[:1], strict=True)]
    unlike = [f"{a}\t{b}\t{n}" for n, (a, b) in enumerate(zip(ANIMALS, COLOURS, strict=True))]
    Path("pairs.tsv").write_text("\n".join([*alike, *unlike, "cat\tunicorn\t5"]) + "\n", encoding="utf-8")
    Path("analogies.txt").write_text(": animals\ncat dog cow fox\nCat dog unicorn pig\n", encoding="utf-8")
    return tmp_path


def settings(**changed):
    tree = {
        "task": "embed",
        "data": {"train": "train.txt", "test": ["pairs.tsv", "analogies.txt"]},
        "model": {"embedding": 16, "subsample": 0.0},
        "train": {"epochs": 12, "batch_tokens": 700, "rate": 0.1, "threads": 1},
    }
    return {**tree, **changed}


@pytest.mark.covers("T6")
@pytest.mark.parametrize("model", [{"kind": "skipgram"}, {"kind": "cbow"}, {"char_ngrams": [3, 4], "buckets": 500}])
def test_vectors_are_trained_measured_and_used(words, model):
    run = weft_package.train(settings(model={"embedding": 16, "subsample": 0.0, **model}), out="run", quiet=True)
    assert {name for name, _ in run.neighbours("cat", n=5)} == set(ANIMALS) - {"cat"}
    assert {name for name, _ in run.neighbours("red - hat + HOUSE", 3)} <= {*COLOURS, "hat", "car"}
    scores = run.report["test"]
    assert scores["spearman"] > 0.5
    with_ngrams = "char_ngrams" in model  # they give a unicorn a vector; analogies need words of the vocabulary
    assert scores["coverage"] == pytest.approx((13 + 1 if with_ngrams else 12 + 1) / 15)
    assert scores["accuracy"] in (0.0, 1.0)
    assert run.report["valid"]["loss"] < 4
    again = weft_package.load("run")
    assert again.neighbours("cat") == run.neighbours("cat")
    assert "spearman" in Path("run/README.md").read_text(encoding="utf-8")
    evaluated = again.evaluate("pairs.tsv")
    assert evaluated.metrics["spearman"] == pytest.approx(scores["spearman"])
    assert ("1 have a word" in evaluated.details["word_pairs"]) == (not with_ngrams)


@pytest.mark.parametrize(("valid", "metric"), [("pairs.tsv", "spearman"), ("analogies.txt", "accuracy")])
def test_tests_of_words_choose_the_model_by_what_they_measure(words, valid, metric):
    data = {"train": "train.txt", "valid": valid}
    run = weft_package.train(settings(data=data, train={"epochs": 2, "threads": 1}), out="run", quiet=True)
    assert set(run.report["valid"]) >= {metric, "coverage"}
    with pytest.raises(ConfigError, match=r'train\.metric = "loss": is not measured here'):
        weft_package.train(settings(data=data, train={"epochs": 1, "metric": "loss"}), out="other", quiet=True)


def test_a_run_goes_on_bit_for_bit_where_it_was_stopped(words, monkeypatch):
    whole = weft_package.train(settings(), out="whole", quiet=True)
    step = VectorFit.step

    def stopped(self, number):
        if number == 17:
            raise KeyboardInterrupt
        return step(self, number)

    monkeypatch.setattr(VectorFit, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        weft_package.train(settings(), out="stopped", quiet=True)
    monkeypatch.setattr(VectorFit, "step", step)
    resumed = weft_package.train(settings(), out="stopped", quiet=True, resume=True)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name


@pytest.mark.covers("T6")
def test_the_commands_show_neighbours_scores_and_intervals(words, weft):
    for seed in ("0", "1"):
        told = weft(
            "train", "embed", "train.txt", "model.embedding=8", "train.epochs=4", f"seed={seed}", "--out", f"r{seed}"
        )
        assert told.code == 0, told.err
    assert "4 updates" in weft("train", "embed", "train.txt", "train.epochs=4", "--dry-run").out
    Path("asked.txt").write_text("cat\nunicorn\nred - hat + car\n", encoding="utf-8")
    lines = weft("predict", "r0", "asked.txt").out.splitlines()
    assert [len(line.split("\t")) for line in lines] == [10, 1, 10]
    assert all(-1 <= float(part.split()[1]) <= 1 for part in lines[0].split("\t"))
    answers = [json.loads(line) for line in weft("predict", "r0", "asked.txt", "--json").out.splitlines()]
    assert answers[1] == {"text": "unicorn", "neighbours": [], "unknown": ["unicorn"]}
    out = weft("evaluate", "r0", "pairs.tsv").out
    assert "spearman" in out
    assert "word pairs: 13, of which 1 have a word without a vector" in out
    assert "accuracy" in weft("evaluate", "r0", "analogies.txt").out
    compared = weft("compare", "r0", "r1", "--data", "pairs.tsv")
    assert compared.code == 0, compared.err
    assert "spearman" in compared.out
    assert 'kind = "skipgram"' in weft("new", "embed").out
    assert "vectors of 8 numbers" in weft("export", "r0", "--to", "vectors", "--out", "vectors.bin.gz").err
    assert read_vectors("vectors.bin.gz").words[0] == "the"
    again = weft("export", "r0", "--to", "vectors", "--out", "vectors.bin.gz")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_runs_are_compared_by_drawing_pairs(words):
    runs = [weft_package.train(settings(seed=seed), out=f"r{seed}", quiet=True) for seed in (0, 1)]
    found = compare([Path("r0"), Path("r1")], data="pairs.tsv")
    for run, compared in zip(runs, found.runs, strict=True):
        assert compared.metrics["spearman"] == pytest.approx(run.evaluate("pairs.tsv").metrics["spearman"])
    interval = found.runs[1].differences["spearman"]
    assert interval.low <= interval.difference <= interval.high


def test_vectors_are_written_most_frequent_words_first(words):
    run = weft_package.train(settings(train={"epochs": 1, "threads": 1}), out="run", quiet=True)
    for name in ("vectors.txt", "vectors.bin.gz"):
        run.write_vectors(name)
        found = read_vectors(name)
        assert found.words[0] == "the"
        assert not {"<pad>", "<unk>", "<eos>"} & set(found.words)
        [cat] = run.embed(["cat"], level="word")
        np.testing.assert_array_equal(found.vectors[found.words.index("cat")], cat.vectors[0])


def test_a_stream_learns_across_lines(words):
    Path("lines.txt").write_text(
        "".join(f"{word}\n" for word in ("one two three four five " * 400).split()), encoding="utf-8"
    )
    data = {"train": "lines.txt"}
    with pytest.raises(DataError, match="no line of the training text has two words"):
        weft_package.train(settings(data=data), out="run", quiet=True)
    run = weft_package.train(settings(data=data | {"unit": "stream"}), out="run2", quiet=True)
    assert run.model.counts.sum() > 1500


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no examples in"),
        ("\n\n", "no examples in"),
        ("word\n", "hold out|set aside|one word|two|validation"),
        ("one sentence with a few words\n", "hold out|set aside|two|validation"),
        ("word word word\nword word\n" * 30, "one word of the vocabulary"),
        ("cat\tdog\t7\nred\tblue\t6\n", "learned from text"),
    ],
)
def test_too_little_text_is_a_clear_error(words, content, message):
    Path("little.txt").write_text(content, encoding="utf-8")
    with pytest.raises(WeftError, match=message) as caught:
        weft_package.train(settings(data={"train": "little.txt"}), out="run", quiet=True)
    assert "\n" not in str(caught.value)


def test_one_sentence_is_enough_with_a_file_for_validation(words):
    Path("one.txt").write_text("one sentence with a few words\n", encoding="utf-8")
    run = weft_package.train(settings(data={"train": "one.txt", "valid": "one.txt"}), out="run", quiet=True)
    assert len(run.neighbours("sentence")) == 5


def test_words_that_cancel_out_have_no_neighbours(words):
    run = weft_package.train(settings(train={"epochs": 1, "threads": 1}), out="run", quiet=True)
    with pytest.raises(DataError, match="cancel out"):
        run.neighbours("cat - cat")
    assert run.predict("cat - cat").neighbours == ()


def test_mistakes_of_questions_are_named(words):
    run = weft_package.train(settings(train={"epochs": 1, "threads": 1}), out="run", quiet=True)
    with pytest.raises(DataError, match=r'"catt" has no vector in words \(did you mean "cat"\?\)'):
        run.neighbours("catt")
    with pytest.raises(ConfigError, match="n = 0"):
        run.neighbours("cat", n=0)
    assert [len(found.neighbours) for found in run.predict(["cat", "", "- +"])] == [10, 0, 0]


def test_wrong_numbers_in_a_folder_are_refused(words):
    import hashlib

    from safetensors.torch import load_file, save_file

    weft_package.train(settings(train={"epochs": 1, "threads": 1}), out="run", quiet=True)
    tensors = load_file("run/model.safetensors")
    save_file(tensors | {"counts": torch.zeros_like(tensors["counts"])}, "run/model.safetensors")
    manifest = json.loads(Path("run/manifest.json").read_text(encoding="utf-8"))
    manifest["sha256"]["model.safetensors"] = hashlib.sha256(Path("run/model.safetensors").read_bytes()).hexdigest()
    Path("run/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunError, match="counts are not those of words"):
        weft_package.load("run")


def test_spearman_is_the_correlation_of_ranks():
    assert spearman([1, 2, 3, 4], [10, 20, 30, 1000]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 · 4 / (5 · 24)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)
    # ranks with a tie, 1 2.5 2.5 4, beside 1 2 3 4: 4.5 / √(5 · 4.5)
    assert spearman([1, 2, 3, 4], [1, 2, 2, 9]) == pytest.approx(4.5 / np.sqrt(5 * 4.5))
    assert spearman([1, 1, 1], [1, 2, 3]) == 0.0
    assert spearman([], []) == 0.0
