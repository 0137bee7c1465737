"""From files to examples: nothing leaks, nothing is hidden."""

from __future__ import annotations

from collections import Counter

import pytest

from weft.config import read_config
from weft.errors import DataError
from weft.run.preparation import prepare


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def tokens(examples, column):
    return {tuple(row.tolist()) for row in examples.columns[column]}


def test_what_is_set_aside_shares_no_source_with_what_is_trained_on(tmp_path):
    lines = [f"sentence {number // 4}\ttranslation {number}" for number in range(400)]
    tree = read_config({"task": "translate", "data": {"train": write(tmp_path / "pairs.tsv", lines)}})
    prepared = prepare(tree)
    assert len(prepared.train) + len(prepared.valid) == 400
    assert len(prepared.valid) == 40
    assert not tokens(prepared.train, "source") & tokens(prepared.valid, "source")
    assert any("set aside 40 of 400" in note for note in prepared.notes)


def test_another_seed_sets_other_examples_aside(tmp_path):
    path = write(tmp_path / "texts.txt", [f"text number {number}" for number in range(200)])
    held = [
        tokens(prepare(read_config({"task": "lm", "seed": seed, "data": {"train": path}})).valid, "tokens")
        for seed in (0, 0, 1)
    ]
    assert held[0] == held[1] != held[2]


def test_examples_that_are_in_training_and_test_are_counted(tmp_path):
    train = write(tmp_path / "train.tsv", [f"text {number}\t{number % 2}" for number in range(50)])
    test = write(tmp_path / "test.tsv", [f"text {number}\t{number % 2}" for number in range(45, 60)])
    notes = prepare(read_config({"task": "classify", "data": {"train": train, "test": test}})).notes
    assert any("5 of 15 test examples are also in the training data" in note for note in notes)


def test_one_label_is_not_enough(tmp_path):
    path = write(tmp_path / "train.tsv", [f"text {number}\tsame" for number in range(50)])
    with pytest.raises(DataError, match=r"data\.train: the training data has only the label 'same'"):
        prepare(read_config({"task": "classify", "data": {"train": path}}))


def test_overlong_pairs_are_left_out_of_training_and_said_but_never_out_of_evaluation(tmp_path):
    long = "word " * 50
    train = write(tmp_path / "train.tsv", [*(f"a{n}\tb{n}" for n in range(20)), f"{long}\tx"])
    data = {"train": train, "valid": train, "max_length": 10}
    prepared = prepare(read_config({"task": "translate", "data": data}))
    assert len(prepared.train) == 20
    assert len(prepared.valid) == 21
    assert any("left out 1 example" in note for note in prepared.notes)


@pytest.mark.parametrize("unit", ["line", "stream"])
def test_every_token_of_a_text_is_predicted_exactly_once(tmp_path, unit):
    path = write(tmp_path / "text.txt", ["abcdefghij" * 5, "klm"])
    data = {"train": path, "valid": path, "unit": unit, "max_length": 8}
    prepared = prepare(read_config({"task": "lm", "data": data, "text": {"kind": "char", "size": 300}}))
    said = [index for row in prepared.train.columns["tokens"] for index in row.tolist()[1:]]
    tokenizer = prepared.task.tokenizer
    text = "abcdefghij" * 5 + ("" if unit == "line" else "\n") + "klm" + ("" if unit == "line" else "\n")
    assert tokenizer.decode(said) == text
    assert int(prepared.train.lengths.max()) <= 9
    characters = sum(int(row[0]) for row in prepared.train.columns["characters"])
    assert characters == len(text) + (2 if unit == "line" else 0), "each line ends once"


def test_a_long_sentence_of_tags_is_split_for_training_and_whole_for_evaluation(tmp_path):
    rows = [line for n in range(10) for line in (f"w{n} A", f"v{n} B", f"u{n} A", "")]
    path = write(tmp_path / "tags.txt", rows)
    prepared = prepare(read_config({"task": "tag", "data": {"train": path, "valid": path, "max_length": 2}}))
    assert sorted(prepared.train.lengths.tolist()) == [1] * 10 + [2] * 10
    assert prepared.valid.lengths.tolist() == [3] * 10


@pytest.mark.parametrize(
    ("labels", "held"),
    [(["a", "b"] * 30, {"a": 3, "b": 3}), (["a"] * 4 + ["b"], {"a": 1}), (["a"] * 60 + ["b"], {"a": 6})],
)
def test_every_label_stays_in_training(labels, held, tmp_path):
    """No class is there that training never saw, and none that it has lost."""
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"text {number} of it\t{label}\n" for number, label in enumerate(labels)), encoding="utf-8")
    prepared = prepare({"task": "classify", "data": {"train": str(path)}})
    assert prepared.task.codec.labels == ("a", "b")
    assert Counter(record.label for record in prepared.valid.records) == held
    left = Counter(labels) - Counter(held)
    assert prepared.task.label_counts(prepared.train) == left
    assert [record.label for record in prepared.records].count("a") == left["a"]
