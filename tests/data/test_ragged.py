"""Rows stored end to end, in memory or in a file, and padded batches of them."""

import subprocess
import sys
import tempfile
from array import array
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Ragged, RaggedBuilder, pad
from weft.data import ragged as module
from weft.errors import Fault

ids = st.lists(st.integers(0, 2**31 - 1), max_size=9)
many_rows = st.lists(ids, max_size=12)


@given(rows=many_rows, memory=st.integers(0, 20), chunk=st.integers(1, 10))
def test_rows_come_back_from_memory_and_from_the_file(rows: list[list[int]], memory: int, chunk: int) -> None:
    with mock.patch.object(module, "_CHUNK_TOKENS", chunk):
        column = Ragged.from_lists(rows, memory=memory)
    assert [row.tolist() for row in column] == rows
    assert len(column) == len(rows)
    assert column.lengths.tolist() == [len(row) for row in rows]
    assert column.size == sum(map(len, rows))


@given(rows=many_rows, memory=st.integers(0, 20), data=st.data())
def test_flat_and_join_are_the_rows_end_to_end(rows: list[list[int]], memory: int, data: st.DataObject) -> None:
    column = Ragged.from_lists(rows, memory=memory)
    everything = [one for row in rows for one in row]
    start, stop = data.draw(st.integers(0, 120)), data.draw(st.integers(0, 120))
    assert column.flat(start, stop).tolist() == everything[start:stop]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1))) if rows else []
    assert column.join(chosen).tolist() == [one for row in chosen for one in rows[row]]


@given(rows=st.lists(ids, min_size=1, max_size=12), memory=st.integers(0, 20), data=st.data())
def test_padding_is_the_rows_and_nothing_but_the_value_behind_them(
    rows: list[list[int]], memory: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    padded, lengths = pad(Ragged.from_lists(rows, memory=memory), np.array(chosen, dtype=np.int64), value=-7)
    longest = max((len(rows[row]) for row in chosen), default=0)
    assert padded.dtype == lengths.dtype == torch.int64
    assert padded.shape == (len(chosen), longest)
    assert padded.tolist() == [rows[row] + [-7] * (longest - len(rows[row])) for row in chosen]
    assert lengths.tolist() == [len(rows[row]) for row in chosen]


def test_padding_by_hand() -> None:
    padded, lengths = pad(Ragged.from_lists([[5, 6], [], [7]]), [2, 0, 1])
    assert padded.tolist() == [[7, 0], [5, 6], [0, 0]]
    assert lengths.tolist() == [1, 2, 0]


@pytest.mark.parametrize("memory", [0, 100])
def test_rows_of_every_kind_are_accepted(memory: int) -> None:
    builder = RaggedBuilder(memory=memory)
    builder.append([1, 2])
    builder.append((3,))
    builder.append(array("i", [4]))
    builder.extend([np.array([5, 6]), np.arange(10, dtype=np.int32)[7:3:-2], range(8, 10)])
    assert [row.tolist() for row in builder.build()] == [[1, 2], [3], [4], [5, 6], [7, 5], [8, 9]]


@pytest.mark.parametrize("memory", [0, 100])
def test_a_row_is_a_copy_of_int32(memory: int) -> None:
    column = Ragged.from_lists([[1, 2], [3]], memory=memory)
    row = column[-2]
    assert row.dtype == np.int32
    row[:] = 9
    assert column[0].tolist() == [1, 2]
    for outside in (2, -3):
        with pytest.raises(IndexError):
            column[outside]


@pytest.mark.parametrize("wrong", [[1, "2"], [1, 2**31]])
def test_a_refused_row_leaves_the_others_whole(wrong: list[int]) -> None:
    builder = RaggedBuilder()
    builder.append([1])
    with pytest.raises((TypeError, OverflowError)):
        builder.append(wrong)
    builder.append([2])
    assert [row.tolist() for row in builder.build()] == [[1], [2]]


def test_large_columns_hold_few_tokens_in_memory() -> None:
    builder = RaggedBuilder(memory=100)
    with mock.patch.object(module, "_CHUNK_TOKENS", 50):
        for start in range(1000):
            builder.append([start] * 10)
            assert len(builder._values) <= 100
        column = builder.build()
    assert column.size == 10_000
    assert column[999].tolist() == [999] * 10


def test_the_file_vanishes_with_the_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    column = Ragged.from_lists([[1, 2, 3]], memory=0)
    assert list(tmp_path.iterdir()) == []
    file = column._values
    assert not isinstance(file, np.ndarray)
    del column
    assert file.closed


def test_reading_data_needs_no_torch() -> None:
    program = "import sys, weft.data; sys.exit('torch' in sys.modules or 'conllu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_full_disk_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", mock.Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(Fault, match=r"No space left on device \(free some space, or set TMPDIR"):
        Ragged.from_lists([[1]], memory=0)
