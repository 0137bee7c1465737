"""Folders with one file per class, and several sources one after another."""

import gzip
import lzma
from pathlib import Path

import pytest

from weft.data import BadLines, Labelled, read_labelled
from weft.errors import DataError


def test_a_folder_of_files_is_a_set_of_classes(tmp_path: Path) -> None:
    (tmp_path / "Greek.txt").write_bytes(b"\xef\xbb\xbfAntonopoulos\r\n\r\n  \r\nZoubek \r\n")
    (tmp_path / "Czech.v2.txt.gz").write_bytes(gzip.compress(b"Abl"))
    (tmp_path / "Irish.txt.xz").write_bytes(lzma.compress(b"Adam\n"))
    (tmp_path / "README.md").write_text("not a class")
    (tmp_path / ".hidden.txt").write_text("not a class")
    assert list(read_labelled(tmp_path, bad=BadLines())) == [
        Labelled("Abl", "Czech.v2", f"{tmp_path}/Czech.v2.txt.gz:1"),
        Labelled("Antonopoulos", "Greek", f"{tmp_path}/Greek.txt:1"),
        Labelled("Zoubek", "Greek", f"{tmp_path}/Greek.txt:4"),
        Labelled("Adam", "Irish", f"{tmp_path}/Irish.txt.xz:1"),
    ]


def test_a_folder_without_classes_says_what_belongs_there(tmp_path: Path) -> None:
    (tmp_path / "pos").mkdir()
    with pytest.raises(DataError, match=r"no LABEL\.txt files .*one file per class"):
        list(read_labelled(tmp_path, bad=BadLines()))


def test_an_empty_class_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("\n")
    with pytest.raises(DataError, match=r"no examples in .*b\.txt"):
        list(read_labelled(tmp_path, bad=BadLines()))


def test_a_class_in_two_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n"))
    with pytest.raises(DataError, match='two files for the label "a"'):
        list(read_labelled(tmp_path, bad=BadLines()))


def test_tables_with_and_without_header_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("label\ttext\nx\tone\n")
    (tmp_path / "b.tsv").write_text("two\ty\n")
    records = read_labelled([str(tmp_path / "a.tsv"), tmp_path / "b.tsv"], bad=BadLines())
    assert [(record.text, record.label) for record in records] == [("one", "x"), ("two", "y")]


def test_every_file_of_several_must_have_examples(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("two\ty\n")
    (tmp_path / "b.tsv").write_text("")
    with pytest.raises(DataError, match=r"no examples in .*b\.tsv"):
        list(read_labelled([tmp_path / "a.tsv", tmp_path / "b.tsv"], bad=BadLines()))
