"""Examples given in Python: every form is read as the same records, and a bad one is named by its number."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.data import BadLines, Columns, Labelled, Objects, Pair, Tagged, Text, find_objects, read_input
from weft.errors import DataError

ROWS = [("the red", "colour"), ("the cow", "animal")]
LABELLED = Columns(Labelled, "text", "label")
TAGGED = Columns(Tagged, "words", "tags")
TAGS = [Tagged(("the", "cat"), ("DET", "NOUN"))]
Review = namedtuple("Review", ["label", "text"])


class PandasLike:
    """What of a pandas frame is used: its columns, and its rows as tuples."""

    def __init__(self, columns):
        self.columns, self.values = list(columns), list(zip(*columns.values(), strict=True))

    def __iter__(self):
        return iter(self.columns)

    def itertuples(self, *, index, name):
        assert not index
        assert name is None
        return iter(self.values)


class PolarsLike:
    """What of a polars frame is used: its rows as dicts."""

    def __init__(self, columns):
        self.columns, self.rows = list(columns), list(zip(*columns.values(), strict=True))

    def __iter__(self):
        return iter(self.columns)

    def iter_rows(self, *, named):
        assert named
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


class Names:
    """A feature of a data set whose numbers have names, or lists of such numbers."""

    def __init__(self, names, *, listed=False):
        self.feature, self.names = (Names(names), None) if listed else (None, names)


class DatasetLike(list):
    """What of a Hugging Face data set is used: rows as dicts, the names of columns and of labels."""

    def __init__(self, rows, **features):
        super().__init__(rows)
        self.column_names, self.features = list(rows[0]), features


def read(data, columns=LABELLED, *, bad=None):
    return [without_place(record) for record in Objects(data, "data.train").read(columns, bad or BadLines())]


def without_place(record):
    return replace(record, place="")


COLUMNS = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
DICTS = [{"text": text, "label": label, "other": 1} for text, label in ROWS]


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        tuple(ROWS),
        [list(row) for row in ROWS],
        (row for row in ROWS),
        DICTS,
        COLUMNS,
        [Review(label, text) for text, label in ROWS],
        [Labelled(*row) for row in ROWS],
        PandasLike(COLUMNS),
        PolarsLike(COLUMNS),
        DatasetLike(DICTS),
        DatasetLike(
            [{"text": "the red", "label": 1}, {"text": "the cow", "label": 0}], label=Names(["animal", "colour"])
        ),
        np.array(ROWS, dtype=object).tolist(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_form_is_the_same_records(data):
    assert read(data) == [Labelled(*row) for row in ROWS]


@pytest.mark.parametrize(
    "data",
    [
        [[("the", "DET"), ("cat", "NOUN")]],
        [(["the", "cat"], ["DET", "NOUN"])],
        [{"words": ["the", "cat"], "tags": ("DET", "NOUN")}],
        [{"tokens": np.array(["the", "cat"]), "upos": np.array(["DET", "NOUN"])}],
        DatasetLike([{"tokens": ["the", "cat"], "tags": [1, 0]}], tags=Names(["NOUN", "DET"], listed=True)),
    ],
)
def test_tagged_sentences(data):
    assert read(data, TAGGED) == TAGS


def test_other_columns_by_name_number_and_path():
    rows = [{"title": "A", "body": "b", "meta": {"stars": 5}}]
    assert read(rows, Columns(Labelled, ["title", "body"], "meta.stars")) == [Labelled("A b", "5")]
    assert read([("x", 3, "A")], Columns(Labelled, 2, 1)) == [Labelled("A", "3")]
    assert read([{"translation": {"en": "a", "fr": "b"}}], Columns(Pair, "translation.en", "translation.fr")) == [
        Pair("a", "b")
    ]


def test_labels_are_spelled_as_json_spells_them():
    rows = [("a", np.int64(1)), ("b", True), ("c", 0.5), ("d", np.str_(" x "))]
    assert [record.label for record in read(rows)] == ["1", "true", "0.5", "x"]


def test_texts_and_running_text():
    assert read(["a b ", " ", {"sentence": "c"}], Columns(Text, "text")) == [Text("a b"), Text("c")]
    lines = "".join(f"line {number}\n" for number in range(20_000))
    blocks = read([lines, "end"], Columns(Text, "text", joined=True))
    assert "".join(block.text for block in blocks) == f"{lines}end\n"
    assert len(blocks) > 2
    assert all(block.text.endswith("\n") for block in blocks)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], None], r"data\.train\[1\]: None is not a record \(give a tuple \(text, label\)"),
        ([ROWS[0], (None, "x")], r"data\.train\[1\]: the text is None, not a text \(leave it out"),
        ([(float("nan"), "x")], r"data\.train\[0\]: the text is nan \(float\), not a text \(leave it out"),
        ([("a", None)], r"data\.train\[0\]: the label is None \(leave such records out\)"),
        ([("a", ["x"])], r"data\.train\[0\]: the label is \['x'\] \(list\) \(a label is a text or a number\)"),
        ([(5, "x")], r"the text is 5 \(int\), not a text \(convert it with str\(\)\)"),
        ([(" ", "x")], r"data\.train\[0\]: the text is empty"),
        ([("a",)], r"data\.train\[0\]: 1 value where 2 are expected"),
        ([("a", "b", "c")], r"data\.train\[0\]: 3 values where 2 are expected"),
        (["a", "b"], r"data\.train\[0\]: 'a' \(str\) is not a record"),
        (
            [{"review": "a", "label": "x"}],
            r'no "text" in the record \(it has review, label; choose one with data\.text',
        ),
        ({"text": ["a"], "label": []}, r"data\.train: columns of different length: text has 1, label has 0"),
        ({"train": DatasetLike(DICTS)}, r'several data sets: train \(give one of them, such as DATA\["train"\]'),
        ({"text": "a", "label": "b"}, r"data\.train: a dict whose values are no columns"),
        (5, r"data\.train: 5 \(int\) is no data"),
        ([], r"no examples in data\.train"),
        (DatasetLike([{"text": "a", "label": -1}], label=Names(["x"])), r"data\.train\[0\]: the label is None"),
    ],
)
def test_a_bad_record_is_named_by_its_number(rows, message):
    with pytest.raises(DataError, match=message) as caught:
        read(rows)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["a", "b"], r"word 0 is 'a' \(str\), not a pair of word and tag"),
        ("a b", r"'a b' \(str\) is no list of pairs of word and tag"),
        ({"words": ["a", "b"], "tags": ["X"]}, r"2 words and 1 tag \(give one tag for each word"),
        ({"words": ["a"], "tags": [None]}, r"the tag is None"),
        ({"words": ["a", None], "tags": ["X", "Y"]}, r"the word is None, not a text"),
        ({"words": ["a"], "ner": ["X"]}, r'no "tags" in the record \(it has words, ner; choose one with data\.field'),
        ([], r"0 words and 0 tags"),
    ],
)
def test_a_bad_sentence_is_named_by_its_number(row, message):
    with pytest.raises(DataError, match=rf"data\.train\[0\]: {message}"):
        read([row], TAGGED)


def test_bad_records_are_skipped_and_empty_pairs_counted_as_in_files():
    bad = BadLines(skip=True)
    assert read([("a", "b"), (None, "c"), ("d", "")], Columns(Pair, "source", "target"), bad=bad) == [Pair("a", "b")]
    assert (bad.count, bad.empty) == (1, 1)


def test_the_name_of_the_data_counts_its_records_and_changes_with_them():
    assert str(Objects(ROWS, "data.train")).startswith("<python: 2 records, ")
    assert str(Objects(ROWS[:1], "data.train")).startswith("<python: 1 record, ")
    assert str(Objects(iter(ROWS), "x")) == str(Objects(list(ROWS), "data.train"))
    assert str(Objects([ROWS[0], ("the fox", "animal")], "data.train")) != str(Objects(ROWS, "data.train"))


def test_paths_are_told_from_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a file").touch()
    Path("runs").mkdir()
    for paths in ("x.txt", Path("x"), ["x.txt", "y.txt"], ["-"], ["folder/x"], ["a file", "another"], [Path("x")]):
        assert find_objects(paths, "data.train") is None, paths
    for texts in (
        ["emma", "olivia"],
        ["a dog runs", "runs", "a cat"],
        ["and/or is it", "x.txt"],
        ["a" * 5000],
        ["a\0"],
        [("x.txt",)],
    ):
        assert find_objects(texts, "data.train") is not None, texts


class Own(str):
    """A string of somebody's own kind."""

    __slots__ = ()

    def __str__(self):
        return "something else"


@pytest.mark.parametrize(
    ("row", "columns", "found"),
    [
        ("a b", LABELLED, "a b"),
        (Own("a b"), LABELLED, "a b"),
        (np.str_("a"), LABELLED, "a"),
        (("a", "label"), LABELLED, "a"),
        (("a",), LABELLED, "a"),
        ({"text": "a", "label": None}, LABELLED, "a"),
        ({"text": "a"}, LABELLED, "a"),
        (("x", "y", "a"), Columns(Labelled, 2, 0), "a"),
        ("the cat", TAGGED, "the cat"),
        (["the", "cat"], TAGGED, ["the", "cat"]),
        ([("the", "DET"), ("cat", "NOUN")], TAGGED, ["the", "cat"]),
        ({"words": ["the", "cat"]}, TAGGED, ["the", "cat"]),
        ({"tokens": "the cat"}, TAGGED, "the cat"),
    ],
)
def test_what_a_prediction_is_made_for(row, columns, found):
    assert read_input(row, columns, "inputs[0]") == found


@pytest.mark.parametrize("row", [None, float("nan"), 5, b"a", {"x": "a", "y": "b"}, {"text": None}])
@pytest.mark.parametrize("columns", [LABELLED, TAGGED, Columns(Text, "text")])
def test_what_is_no_text_gets_no_prediction(row, columns):
    with pytest.raises(DataError, match=r"inputs\[0\]: "):
        read_input(row, columns, "inputs[0]")


def test_a_tuple_of_three_texts_is_no_labelled_text():
    with pytest.raises(DataError, match=r"inputs\[0\]: 3 values where 1 is expected"):
        read_input(("a", "b", "c"), LABELLED, "inputs[0]")
