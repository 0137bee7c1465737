"""Columns by name, number, list and path; delimiters; files with a header of other names or none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from weft.config import parse_overrides, validate
from weft.data import BadLines, Layout, read_labelled, read_pairs, read_table
from weft.errors import ConfigError, DataError
from weft.run.data_cache import DataCache
from weft.tasks.classify import LabelledData

REVIEWS = [
    (f"the {noun} was {word}, {number} times", label)
    for number in range(10)
    for noun, word, label in (("film", "good", "pos"), ("play", "bad", "neg"))
]


def write(path: Path, rows: list[Any], delimiter: str = "\t") -> Path:
    path.write_text("".join(f"{delimiter.join(map(str, row))}\n" for row in rows), encoding="utf-8")
    return path


def labelled(path: Path, bad: BadLines | None = None, layout: Layout = Layout(), **columns: Any) -> list[Any]:
    records = read_labelled(path, layout=layout, bad=bad or BadLines(), **columns)
    return [(record.text, record.label) for record in records]


def refusal(path: Path, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        labelled(path, **settings)
    assert caught.value.where == f"{path}:1"
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}:1: ")


@pytest.mark.parametrize(
    ("header", "choice"),
    [
        (("review", "sentiment"), "data.text=review data.label=sentiment"),
        (("Review Text", "class"), "data.text='Review Text' data.label=class"),
        (("1st comment", "stars"), "data.text=0 data.label=stars"),
    ],
)
def test_a_header_with_other_names_is_refused_with_the_line_that_trains_it(
    tmp_path: Path, header: tuple[str, str], choice: str
) -> None:
    import shlex

    path = write(tmp_path / "a.tsv", [header, *REVIEWS])
    message = refusal(path)
    assert 'looks like a header without "text" and "label"' in message
    assert f'its columns are: {header[0]} "the film was good, 0 ti…", {header[1]} "pos"' in message
    assert f"choose with: {choice}; if it is an example: data.header=false" in message
    assert labelled(path, **parse_overrides(shlex.split(choice))["data"]) == REVIEWS
    assert labelled(path, layout=Layout(header=False)) == [header, *REVIEWS]


def test_a_header_of_pairs(tmp_path: Path) -> None:
    pairs = [(f"yes {number}", f"oui {number}") for number in range(5)]
    path = write(tmp_path / "a.csv", [("english", "french"), *pairs], ",")
    with pytest.raises(DataError, match=r"choose with: data\.source=english data\.target=french;"):
        list(read_pairs(path, bad=BadLines()))
    found = read_pairs(path, source="english", target="french", bad=BadLines())
    assert [(pair.source, pair.target) for pair in found] == pairs


def test_header_true_needs_the_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [("Wort", "Art"), *REVIEWS[:3]])
    assert len(labelled(path)) == 4, "nothing says that it is a header"
    assert 'no column "text" in the header' in refusal(path, layout=Layout(header=True))
    assert labelled(path, text="Wort", label="Art", layout=Layout(header=True)) == REVIEWS[:3]
    assert labelled(path, text=0, label=1, layout=Layout(header=True)) == REVIEWS[:3]
    assert "no header to find" in refusal(path, text="Wort", label="Art", layout=Layout(header=False))


def test_columns_by_number(tmp_path: Path) -> None:
    rows = [(number, label, text) for number, (text, label) in enumerate(REVIEWS)]
    path = write(tmp_path / "a.tsv", rows)
    message = refusal(path)
    assert "3 columns where 2 are expected" in message
    assert (
        'its columns are: 0 "0", 1 "pos", 2 "the film was good, 0 ti…"; choose with: data.text=2 data.label=1)'
        in message
    )
    assert labelled(path, text=2, label=1) == REVIEWS
    assert "no column 3 among 3, counted from 0" in refusal(path, text=3, label=1)

    bad = BadLines()
    named = write(tmp_path / "b.tsv", [("id", "sentiment", "review"), *rows])
    assert labelled(named, bad, text=2, label=1) == REVIEWS, "numbers count in a file with a header, too"
    assert bad.notes == [
        f"{named}: the first line is taken for a header: id, sentiment, review (data.header=false makes it an example)"
    ]


def test_the_other_of_two_columns_needs_no_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [(label, text) for text, label in REVIEWS])
    assert labelled(path, label=0) == REVIEWS


def test_a_label_that_comes_first_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [(label, text) for text, label in REVIEWS])
    message = refusal(path)
    assert "the label seems to come first" in message
    assert "choose with: data.text=1 data.label=0; if it does not: data.text=0 data.label=1" in message
    assert labelled(path, text=1, label=0) == REVIEWS
    assert labelled(path, text=0, label=1) == [(label, text) for text, label in REVIEWS]


def test_a_missing_column_of_second_texts(tmp_path: Path) -> None:
    rows = [("premise", "hypothesis", "label"), *((text, f"so {text}", label) for text, label in REVIEWS)]
    path = write(tmp_path / "a.tsv", rows)
    columns = {"text": "premise", "pair": "nope", "label": "label"}
    with pytest.raises(DataError, match=r'no column "nope" in the header for data\.pair .*: data\.pair=hypothesis\)$'):
        read_table(str(path), columns, bad=BadLines())


def test_several_columns_are_joined(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [("title", "body", "label"), ("A", "b c", "x"), ("", "d", "y")], ",")
    assert labelled(path, text=["title", "body"]) == [("A b c", "x"), ("d", "y")]
    assert labelled(path, text=[1, "title"]) == [("b c A", "x"), ("d", "y")]
    assert 'no column "tilte" in the header' in refusal(path, text=["tilte", "body"])


@pytest.mark.parametrize("header", [[], [("text", "label")]])
@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_the_delimiter_is_found(tmp_path: Path, name: str, delimiter: str, header: list[tuple[str, str]]) -> None:
    rows = [*header, *((f'"{text}"' if delimiter == "," else text, label) for text, label in REVIEWS)]
    path, bad = write(tmp_path / name, rows, delimiter), BadLines()
    assert labelled(path, bad) == REVIEWS
    usual = "," if name == "a.csv" else "\t"
    assert bool(bad.notes) == (delimiter != usual), "what is unusual is said"


def test_the_delimiter_is_set(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", [("one", "a"), ("two", "b")], " ||| ")
    assert labelled(path, layout=Layout(delimiter="|||")) == [("one", "a"), ("two", "b")]
    single = write(tmp_path / "b.tsv", [("good", "pos")], ";")
    assert "choose what separates its columns: data.delimiter=';'" in refusal(single)
    assert labelled(single, layout=Layout(delimiter=";")) == [("good", "pos")]


def test_commas_in_prose_are_no_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", [(f"well, this is number {number}",) for number in range(20)])
    message = refusal(path)
    assert "1 column where 2 are expected" in message
    assert "choose what separates its columns: data.delimiter=," in message


def test_a_bad_line_does_not_change_the_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [*((text.replace(",", ""), label) for text, label in REVIEWS), ("one",)], ",")
    with pytest.raises(DataError, match="1 column where 2 are expected"):
        labelled(path)


NESTED = [
    {"review": {"title": "A", "body": "b c"}, "tags": ["x", "y"], "stars": 1},
    {"review": {"title": None, "body": "d"}, "tags": ["z"], "stars": 2},
]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz"])
@pytest.mark.parametrize("form", ["array", "pretty", "lines"])
def test_json_as_lines_or_as_one_array(tmp_path: Path, name: str, form: str) -> None:
    text = {
        "array": json.dumps(NESTED),
        "pretty": json.dumps(NESTED, indent=2),
        "lines": "\n".join(map(json.dumps, NESTED)),
    }[form]
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert labelled(path, text="review.body", label="stars") == [("b c", "1"), ("d", "2")]
    assert labelled(path, text=["review.title", "review.body"], label="tags.0") == [("A b c", "x"), ("d", "z")]
    places = [record.place for record in read_labelled(path, text="review.body", label="stars", bad=BadLines())]
    lines = {"array": (1, 1), "pretty": (2, 13), "lines": (1, 2)}[form]
    assert places == [f"{path}:{line}" for line in lines]


def test_json_without_the_key_lists_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, NESTED)))
    message = refusal(path)
    assert 'no "text" in the object' in message
    assert 'its columns are: review.title "A", review.body "b c", stars "1"' in message
    assert "choose with: data.text=review.body data.label=stars" in message
    with pytest.raises(DataError, match=r"data\.text=0 counts columns, and JSON has names"):
        labelled(path, text=0)


@pytest.mark.parametrize(
    ("text", "line"),
    [('[{"text": "a", "label": "b"}\n {"text"', 1), ('[{"text": "a", "label": "b"},\n {"text"', 2), ("[\n1]", 2)],
)
def test_a_broken_array_names_the_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=f"a.json:{line}: not "):
        labelled(path)


def test_predicting_needs_no_labels(tmp_path: Path) -> None:
    columns = {"text": "text", "label": "label"}

    def texts(path: Path) -> tuple[list[str], bool, list[str] | None]:
        table = read_table(str(path), columns, needed=["text"], override="--column {column}", bad=BadLines())
        return [table.text("text", row) for row in table], table.has("label"), table.columns

    assert texts(write(tmp_path / "a.tsv", [("one",), ("two",)])) == (["one", "two"], False, None)
    assert texts(write(tmp_path / "a.tsv", [("one", "x"), ("two", "y")])) == (["one", "two"], True, None)
    assert texts(write(tmp_path / "a.csv", [("id", "Text"), (1, "one")], ",")) == (["one"], False, ["id", "Text"])
    with pytest.raises(DataError, match=r'no column "text" in the header .*choose with: --column body\)$'):
        texts(write(tmp_path / "a.csv", [("body", "label"), ("one", 1)], ","))
    with pytest.raises(DataError, match=r"choose with: --column review\)$"):
        texts(write(tmp_path / "a.csv", [("id", "review"), (1, "one")], ","))
    table = read_table(
        str(write(tmp_path / "a.csv", [("id", "text"), (7, " one ")], ",")), columns, needed=["text"], bad=BadLines()
    )
    assert [row.cells for row in table] == [["7", " one "]], "cells come back as they stand"


def settings(*words: str) -> LabelledData:
    data = validate({"task": "classify", "data": {"train": "a.csv"} | parse_overrides(words)["data"]}).data
    assert isinstance(data, LabelledData)
    return data


def test_columns_on_the_command_line() -> None:
    assert settings("data.text=2", "data.label=0").text == 2
    assert settings('data.text=["title","body"]').text == ["title", "body"]
    assert settings("data.text=review.body").text == "review.body"
    assert settings("data.delimiter=;", "data.header=false").layout == Layout(None, ";", False)
    assert settings(r"data.delimiter=\t").delimiter == settings("data.delimiter=tab").delimiter == "\t"


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("data.text=-1", "data.text: -1 is no column"),
        ("data.text=[]", "data.text: an empty list"),
        ("data.text=true", "data.text: True is no column"),
        ("data.label=[1.5]", "data.label: 1.5 is no column"),
        ('data.delimiter=""', "data.delimiter: '' cannot separate columns"),
        ("data.header=maybe", 'data.header = "maybe"'),
    ],
)
def test_impossible_columns_name_the_setting(word: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(word)
    assert str(caught.value).startswith(what)


def test_what_is_kept_depends_on_how_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    words = ["data.text=0", "data.text=text", "data.label=1", "data.delimiter=;", "data.header=true"]
    opened = [DataCache.open("classify", settings(word), skip_bad_lines=False) for word in words]
    assert len({json.dumps(kept.reading) for kept in opened if kept}) == len(words)


@pytest.mark.covers("T3")
def test_a_folder_of_folders_is_a_set_of_classes(tmp_path: Path) -> None:
    train = tmp_path / "train"
    for label in ("neg", "pos"):
        (train / label).mkdir(parents=True)
        (train / label / "1.txt").write_bytes(f"{label} one\r\nand more\r\n".encode())
        (train / label / "2.txt").write_text(f"{label} two")
    (train / "urls_pos.txt").write_text("not a class")
    bad = BadLines()
    records = list(read_labelled(train, bad=bad))
    assert [(record.text, record.label) for record in records] == [
        ("neg one\nand more", "neg"),
        ("neg two", "neg"),
        ("pos one\nand more", "pos"),
        ("pos two", "pos"),
    ]
    assert records[0].place == f"{train}/neg/1.txt:1"
    assert bad.notes == [f"{train}: the classes are its folders; not read: urls_pos.txt"]
    (tmp_path / "test").mkdir()
    (train / "1.txt").write_text("x")
    with pytest.raises(DataError, match="holds parts of a data set, not classes: train"):
        list(read_labelled(tmp_path, bad=BadLines()))
