"""From files to examples: nothing leaks, nothing is hidden."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from weft.config import read_config
from weft.errors import DataError
from weft.run.prepare import prepare
from weft.tasks.labels import count_labels
from weft.text import UNK


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


def test_test_examples_that_chose_the_model_are_counted(tmp_path):
    train = write(tmp_path / "train.tsv", [f"text {number}\t{number % 2}" for number in range(50)])
    valid = write(tmp_path / "valid.tsv", [f"line {number}\t{number % 2}" for number in range(20)])
    notes = prepare(read_config({"task": "classify", "data": {"train": train, "valid": valid, "test": valid}})).notes
    said = "20 of 20 test examples are also in the validation data, by which the model is chosen: the test scores"
    assert [note for note in notes if "flatter" in note] == [f"{said} flatter the model"]


@pytest.mark.parametrize("task", ["lm", "classify", "translate", "tag"])
def test_a_word_that_may_mean_unknown_is_noted(task, tmp_path):
    word = "[UNK]"
    lines = {
        "lm": [f"the {word} cat {number}" for number in range(60)],
        "classify": [f"the {word} cat {number}\t{number % 2}" for number in range(60)],
        "translate": [f"cat {number}\t{word} chat" for number in range(60)],
        "tag": [line for number in range(60) for line in (f"{word} X", f"cat{number} N", "")],
    }
    tree = {"task": task, "data": {"train": write(tmp_path / "train.txt", lines[task])}}
    if task in ("classify", "translate"):
        tree["data"]["train"] = write(tmp_path / "train.tsv", lines[task])
    notes = prepare(read_config(tree)).notes
    (note,) = (note for note in notes if "[UNK]" in note)
    assert "[UNK] stands 60 times in the training text and is read as text" in note
    assert 'set text.unknown="[UNK]"' in note
    said = prepare(read_config({**tree, "text": {"unknown": word}}))
    assert not any(word in note for note in said.notes)
    column = {"tag": "words", "translate": "target"}.get(task, "tokens")
    assert all(UNK in row for row in said.train.columns[column])


def test_a_word_that_stands_alone_is_no_sign_of_unknown_words(tmp_path):
    path = write(tmp_path / "texts.txt", [*(f"the unk cat {number}" for number in range(60)), "UNK is a name", "[UNK]"])
    assert not any("unknown" in note for note in prepare(read_config({"task": "lm", "data": {"train": path}})).notes)


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
    examples = prepared.train if unit == "line" else prepared.valid  # of running text, every epoch has other pieces
    said = [index for row in examples.columns["tokens"] for index in row.tolist()[1:]]
    tokenizer = prepared.task.tokenizer
    text = "abcdefghij" * 5 + ("" if unit == "line" else "\n") + "klm" + ("" if unit == "line" else "\n")
    assert tokenizer.decode(said) == text
    assert int(examples.lengths.max()) <= 9
    characters = sum(int(row[0]) for row in examples.columns["characters"])
    assert characters == len(text) + (2 if unit == "line" else 0), "each line ends once"


def test_the_end_of_running_text_is_set_aside(tmp_path):
    path = write(tmp_path / "text.txt", [f"line {number:04}" for number in range(2000)])
    data = {"train": path, "unit": "stream", "max_length": 50}
    prepared = prepare(read_config({"task": "lm", "data": data, "text": {"kind": "char"}}))
    tokenizer = prepared.task.tokenizer
    held = tokenizer.decode([index for row in prepared.valid.columns["tokens"] for index in row.tolist()[1:]])
    learned = tokenizer.decode(prepared.train.pieces.text.flat(0, 100_000).tolist())
    assert learned.startswith("line 0000\n")
    assert held.endswith("line 1999\n")
    assert learned + held == Path(path).read_text(encoding="utf-8")
    assert 0.1 < len(held) / 20_000 < 0.15
    assert prepared.notes == ("no data.valid: set aside the end of the text, 12% of it",)


def test_running_text_of_one_block_has_no_end_to_set_aside(tmp_path):
    path = write(tmp_path / "text.txt", ["a short text"])
    with pytest.raises(DataError, match=r"data\.train: nothing to hold out from.*data\.valid"):
        prepare(read_config({"task": "lm", "data": {"train": path, "unit": "stream"}}))


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
    assert count_labels(prepared.task.codec, prepared.train, prepared.task.label_column) == left
    assert [record.label for record in prepared.records].count("a") == left["a"]
