"""Pairs from tables and from parallel files, which must never go out of step."""

from pathlib import Path

import pytest

from weft.data import BadLines, Pair, read_pairs
from weft.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a.de", tmp_path / "a.en"


@pytest.mark.covers("T3")
def test_a_table_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("ja\tyes\n\tno source\nno target\t\nnein\tno\n")
    bad = BadLines()
    assert list(read_pairs(path, bad=bad)) == [Pair("ja", "yes", f"{path}:1"), Pair("nein", "no", f"{path}:4")]
    assert (bad.empty, bad.count) == (2, 0)


@pytest.mark.covers("T3")
def test_parallel_files_correspond_line_by_line(files: tuple[Path, Path]) -> None:
    left, right = files
    left.write_bytes("ja\r\n\r\nein\u2028Satz\r\nnein\r\n".encode())
    right.write_text("yes\nnothing\na sentence\n no ")
    bad = BadLines()
    assert list(read_pairs([left, right], bad=bad)) == [
        Pair("ja", "yes", f"{left}:1"),
        Pair("ein\u2028Satz", "a sentence", f"{left}:3"),
        Pair("nein", "no", f"{left}:4"),
    ]
    assert bad.empty == 1


@pytest.mark.parametrize(("german", "english"), [(3, 5), (5, 3), (4, 5), (0, 1), (1, 0)])
def test_uneven_files_are_named_with_their_lines(files: tuple[Path, Path], german: int, english: int) -> None:
    left, right = files
    left.write_text("wort\n" * german)
    right.write_text("word\n" * english)
    with pytest.raises(DataError) as caught:
        list(read_pairs([left, right], bad=BadLines(skip=True)))
    counts = [f"{count} line" if count == 1 else f"{count} lines" for count in (german, english)]
    assert f"{left} has {counts[0]} but {right} has {counts[1]}" in caught.value.what
    assert caught.value.where == f"{left}:{min(german, english) + 1}"


def test_a_faulty_line_takes_its_partner_along(files: tuple[Path, Path]) -> None:
    left, right = files
    left.write_bytes(b"eins\nzwei\ndrei\nvier\n")
    right.write_bytes(b"one\n\xff\nthree\nfour\n")
    with pytest.raises(DataError) as caught:
        list(read_pairs([left, right], bad=BadLines()))
    assert caught.value.where == f"{right}:2"
    bad = BadLines(skip=True)
    pairs = [(pair.source, pair.target) for pair in read_pairs([left, right], bad=bad)]
    assert pairs == [("eins", "one"), ("drei", "three"), ("vier", "four")]
    assert bad.count == 1


def test_files_without_a_full_pair_are_an_error(files: tuple[Path, Path]) -> None:
    left, right = files
    left.write_text("eins\n\n")
    right.write_text("\ntwo\n")
    with pytest.raises(DataError, match=r"no examples in .*a\.de and .*a\.en"):
        list(read_pairs([left, right], bad=BadLines()))


def test_pairs_come_from_one_file_or_two() -> None:
    with pytest.raises(DataError, match=r"a, b, c: 3 files of pairs .*\[source, target\]"):
        list(read_pairs(["a", "b", "c"], bad=BadLines()))
    with pytest.raises(DataError, match="only one of two parallel files can be the standard input"):
        list(read_pairs(["-", "-"], bad=BadLines()))
