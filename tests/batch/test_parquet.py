"""Parquet as the input and the output of a batch."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest
from tests.batch.conftest import read_rows, write_rows

from weft import predict_files
from weft.errors import DataError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DAY = datetime.date(2024, 2, 29)


@pytest.fixture
def table(texts, tmp_path):
    """The rows of in.jsonl as in.parquet, in row groups that fit no part, with a column that JSON has no type for."""
    columns = {name: [row[name] for row in texts] for name in ("id", "text")}
    found = pyarrow.table(
        {**columns, "id": pyarrow.array(columns["id"], pyarrow.int16()), "day": [DAY] * len(texts), "n": [b"\0"] * 53}
    )
    parquet.write_table(found, tmp_path / "in.parquet", row_group_size=7)
    return found


def test_columns_keep_their_types_and_answers_get_theirs(classifier, texts, table):
    predict_files(classifier, "in.jsonl", "plain.jsonl")
    plain = read_rows("plain.jsonl")
    predict_files(classifier, "in.parquet", "out.parquet", part_rows=5)
    found = parquet.read_table("out.parquet")
    assert found.schema.names == ["id", "text", "day", "n", "label", "probability", "probabilities"]
    assert found.select(["id", "text", "day", "n"]).equals(table)
    for name in ("label", "probability", "probabilities"):
        expected = [row[name] for row in plain]
        if name == "probability":
            expected = [None if share is None else pytest.approx(share, abs=1e-6) for share in expected]
            assert found.column(name).to_pylist() == expected
        elif name == "label":
            assert found.column(name).to_pylist() == expected


def test_lines_of_parquet_have_times_and_bytes_as_text(classifier, table):
    predict_files(classifier, "in.parquet", "out.jsonl")
    rows = read_rows("out.jsonl")
    assert [row["id"] for row in rows] == list(range(53))
    assert {row["day"] for row in rows} == {"2024-02-29"}
    assert {row["n"] for row in rows} == {"AA=="}


def test_a_column_that_is_empty_in_one_part_has_the_type_of_the_others(classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"text": "", "note": None}, {"text": ""}, {"text": "red", "note": 1}, {"text": "cow", "note": 2.5}]
    write_rows(Path("in.jsonl"), rows)
    predict_files(classifier, "in.jsonl", "out.parquet", part_rows=1)
    found = parquet.read_table("out.parquet")
    assert found.column("note").to_pylist() == [None, None, 1, 2.5]
    assert found.column("label").to_pylist()[:2] == [None, None]
    assert str(found.schema.field("label").type) == "string"


def test_values_of_several_types_are_an_error_with_a_cure(classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rows in ([{"text": "a", "note": "x"}, {"text": "b", "note": 1}], [{"text": "a", "note": [1, "x"]}]):
        write_rows(Path("in.jsonl"), rows)
        with pytest.raises(DataError, match=r"values of several types: .*--out FILE\.jsonl"):
            predict_files(classifier, "in.jsonl", "out.parquet", part_rows=1)
        Path("out.parquet.job/part-000000.jsonl").unlink()
        for path in Path("out.parquet.job").iterdir():
            path.unlink()


def test_several_files_and_folders_are_one_table(classifier, texts, table, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    parquet.write_table(table.slice(40).select(["id", "text"]), folder / "b.parquet")
    write_rows(folder / "a.jsonl", texts[:3])
    found = predict_files(classifier, [str(folder), "in.parquet"], "out.parquet")
    assert found.rows == 3 + 13 + 53
    ids = parquet.read_table("out.parquet").column("id").to_pylist()
    assert ids == [0, 1, 2, *range(40, 53), *range(53)]


def test_a_damaged_file_is_one_error(classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.parquet").write_bytes(b"PAR1" + b"\0" * 40 + b"PAR1")
    with pytest.raises(DataError, match=r"in\.parquet: no Parquet file, or damaged"):
        predict_files(classifier, "in.parquet", "out.jsonl")


def test_the_package_that_is_missing_is_named(weft, classifier, texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for files in (["in.jsonl", "--out", "out.parquet"], ["in.parquet"]):
        outcome = weft("predict", str(classifier), *files)
        assert outcome.code != 0
        assert "Parquet files need pyarrow (pip install pyarrow)" in outcome.err
