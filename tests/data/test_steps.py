"""Feature vectors: read from JSON, tables and Python; whatever is no number is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.data import BadLines, Columns, Labelled, Measured, Statistics, Steps, as_values, from_values, read_answered
from weft.data.ragged import Ragged, numbers_of, pad_numbers
from weft.data.values import read_example, read_input
from weft.errors import DataError

COLUMNS = Columns(Labelled, "steps", "label", steps=True, sequence="sequence")
TABLE = "sequence,x,y,label\n7,1,2,up\n7,3,4,\n8,5,6,down\n"
ROWS = Columns(Labelled, ["x", "y"], "label", steps=True, sequence="sequence")


def read(path: Path, text: str, columns: Columns = COLUMNS, *, bad: BadLines | None = None) -> list[Any]:
    path.write_text(text, encoding="utf-8")
    return list(read_answered(str(path), columns, bad=bad or BadLines()))


@pytest.mark.covers("T7")
@pytest.mark.parametrize("columns", [ROWS, ROWS._replace(input="*")], ids=["named", "all others"])
def test_a_table_with_a_row_per_step(tmp_path: Path, columns: Columns) -> None:
    first, second = read(tmp_path / "a.csv", TABLE, columns)
    assert first.steps.array.tolist() == [[1, 2], [3, 4]]
    assert second.steps.array.tolist() == [[5, 6]]
    assert (first.label, second.label, second.place) == ("up", "down", f"{tmp_path}/a.csv:4")


@pytest.mark.covers("T7")
def test_a_list_of_steps_in_json(tmp_path: Path) -> None:
    rows = [{"steps": [[1, 2], [3, 4]], "label": "up"}, {"steps": [[5, 6]], "label": "down"}]
    found = read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [record.steps.array.tolist() for record in found] == [[[1, 2], [3, 4]], [[5, 6]]]
    columns = COLUMNS._replace(input=["x", "y"])
    rows = [{"x": [1, 3], "y": [2, 4], "label": "up"}]
    assert read(tmp_path / "b.jsonl", json.dumps(rows[0]), columns)[0].steps == found[0].steps


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("a.csv", TABLE.replace("4", ""), ROWS, r'a\.csv:3: "y" is empty, not a number \(write a number'),
        ("a.csv", TABLE.replace("4", "nan"), ROWS, r"a\.csv:3: \"y\" is 'nan', not a number"),
        ("a.csv", TABLE.replace("4", "1e999"), ROWS, r"a\.csv:3: \"y\" is '1e999', not a number"),
        ("a.csv", TABLE.replace("4,", "4,down"), ROWS, r'a\.csv:3: the label is "down", where the sequence "7" began'),
        ("a.csv", TABLE + "7,1,1,up\n", ROWS, r'a\.csv:5: more rows of the sequence "7" \(sort the file'),
        ("a.jsonl", '{"steps": [[1, 2], [3]], "label": "a"}', COLUMNS, r"a\.jsonl:1: step 1 .* 1 number, step 0 has 2"),
        ("a.jsonl", '{"steps": [[1, null]], "label": "a"}', COLUMNS, r'a\.jsonl:1: "steps\[0\]\[1\]" is empty, not a'),
        ("a.jsonl", '{"steps": [], "label": "a"}', COLUMNS, r'a\.jsonl:1: "steps" is empty \(a sequence is a list'),
        ("a.jsonl", '{"steps": "no", "label": "a"}', COLUMNS, r"a\.jsonl:1: \"steps\" is 'no'"),
    ],
)
def test_bad_numbers_are_named_with_their_line(
    tmp_path: Path, name: str, text: str, columns: Columns, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / name, text, columns)


def test_a_bad_row_costs_its_whole_sequence(tmp_path: Path) -> None:
    bad = BadLines(skip=True)
    [kept] = read(tmp_path / "a.csv", TABLE.replace("4", "?"), ROWS, bad=bad)
    assert (kept.label, bad.count) == ("down", 1)


@pytest.mark.parametrize("form", [list, tuple, np.array], ids=["list", "tuple", "numpy"])
def test_python_forms(form: Any) -> None:
    steps = form([[1.0, 2.0], [3.0, 4.0]])
    record = read_example((steps, "up"), COLUMNS, "data.train[0]", {})
    assert record == Labelled("", "up", "data.train[0]", steps=Steps.of(np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert read_example({"steps": steps, "label": "up"}, COLUMNS, "data.train[0]", {}) == record
    assert read_input(steps, COLUMNS, "inputs[0]") == record.steps


def test_a_tensor_is_an_input() -> None:
    import torch

    assert read_input(torch.ones(3, 2), COLUMNS, "inputs[0]") == Steps.of(np.ones((3, 2)))


def test_a_record_in_the_cache_is_the_same() -> None:
    record = Measured("", 2.5, "a.csv:2", steps=Steps.of(np.array([[1.5, -2.0]])))
    assert from_values(json.loads(json.dumps(as_values(record)))) == record


def test_statistics_are_those_of_all_steps_together() -> None:
    random = np.random.default_rng(0)
    parts = [random.normal([3.0, 1e9], [2.0, 0.5], (size, 2)) for size in (5, 1, 30)]
    whole, found = np.concatenate(parts), Statistics.of(iter(parts))
    assert found.mean == pytest.approx(whole.mean(0))
    assert found.scale == pytest.approx(whole.std(0), rel=1e-6)
    assert found.restore(found.standardise(whole).astype(np.float64)) == pytest.approx(whole)
    assert Statistics.of_tree(json.loads(json.dumps(found.tree()))) == found


def test_a_feature_that_never_changes_has_a_scale_of_one() -> None:
    assert Statistics.of([np.full((4, 1), 0.1 + 0.2)]) == Statistics((0.1 + 0.2,), (1.0,))


def test_numbers_are_stored_as_they_are() -> None:
    rows = [np.array([1.5, -2.0], dtype=np.float32), np.array([0.1] * 4, dtype=np.float32)]
    column = Ragged.from_lists(rows)
    assert numbers_of(column[0]).tolist() == [1.5, -2.0]
    padded, lengths = pad_numbers(column, [1, 0], 2)
    assert padded.shape == (2, 2, 2)
    assert lengths.tolist() == [2, 1]
    assert not padded[1, 1].any()
