"""Names for what files hold: the same for the same bytes, read again only when a file has changed."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from weft.data import content, identify, stamps

OLD = 1_000_000_000_000_000_000


def write(path: Path, text: str, *, changed: int = OLD) -> str:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(changed, changed))
    return str(path)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


def name(path: str | list[str], memory: Path) -> str:
    files = stamps(path)
    assert files is not None
    found = identify(files, memory)
    assert found is not None
    return found


def reads(path: str, memory: Path) -> int:
    """How many files are read to name this one."""
    with mock.patch.object(content.hashlib, "file_digest", wraps=content.hashlib.file_digest) as digest:
        name(path, memory)
    return digest.call_count


def test_bytes_and_endings_make_the_name(tmp_path: Path, memory: Path) -> None:
    first = write(tmp_path / "a.txt", "text")
    assert name(first, memory) == name(write(tmp_path / "b.txt", "text"), memory)
    assert name(first, memory) != name(write(tmp_path / "c.txt", "test"), memory)
    assert name(first, memory) != name(write(tmp_path / "a.csv", "text"), memory), "it is read in another way"


def test_the_order_of_files_matters(tmp_path: Path, memory: Path) -> None:
    left, right = write(tmp_path / "a.txt", "one"), write(tmp_path / "b.txt", "two")
    assert name([left, right], memory) != name([right, left], memory)


def test_in_a_folder_the_names_are_labels(tmp_path: Path, memory: Path) -> None:
    found = set()
    for folder, files in {"x": ["good", "bad"], "y": ["good", "poor"]}.items():
        (tmp_path / folder).mkdir()
        for text, label in enumerate(files):
            write(tmp_path / folder / f"{label}.txt", f"text {text}")
        found.add(name(str(tmp_path / folder), memory))
    assert len(found) == 2


def test_folders_in_a_folder_are_labels_too(tmp_path: Path, memory: Path) -> None:
    found = set()
    for folder, labels in {"x": ["good", "bad"], "y": ["good", "poor"]}.items():
        for label in labels:
            (tmp_path / folder / label).mkdir(parents=True)
            write(tmp_path / folder / label / "1.txt", "text")
        found.add(name(str(tmp_path / folder), memory))
    write(tmp_path / "x" / "bad" / "1.txt", "other text")
    found.add(name(str(tmp_path / "x"), memory))
    assert len(found) == 3


def test_many_small_files_leave_no_notes(tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_CACHED_HASHES", 1)
    folder = tmp_path / "x"
    folder.mkdir()
    for label in ("good", "bad"):
        write(folder / f"{label}.txt", label)
    assert name(str(folder), memory) == name(str(folder), memory)
    assert not list(memory.iterdir())


def test_an_unchanged_file_is_read_once(tmp_path: Path, memory: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    assert [reads(path, memory) for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(("text", "changed"), [("test", OLD + 1), ("texts", OLD)])
def test_a_file_with_another_time_or_size_is_read_again(tmp_path: Path, memory: Path, text: str, changed: int) -> None:
    path = write(tmp_path / "a.txt", "text")
    before = name(path, memory)
    write(tmp_path / "a.txt", text, changed=changed)
    assert name(path, memory) != before


def test_a_file_replaced_by_another_of_the_same_time_and_size_is_read_again(tmp_path: Path, memory: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    before = name(path, memory)
    write(tmp_path / "new.txt", "test")
    (tmp_path / "new.txt").replace(path)
    assert name(path, memory) != before


def test_a_file_that_may_still_be_written_is_not_remembered(tmp_path: Path, memory: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text", encoding="utf-8")
    assert [reads(str(path), memory) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"stamp": 3}'])
def test_a_damaged_memory_is_made_anew(tmp_path: Path, memory: Path, damage: str) -> None:
    path = write(tmp_path / "a.txt", "text")
    before = name(path, memory)
    (note,) = memory.iterdir()
    note.write_text(damage, encoding="utf-8")
    assert name(path, memory) == before
    assert reads(path, memory) == 0


def test_what_cannot_be_read_again_has_no_name(tmp_path: Path) -> None:
    assert stamps("-") is None
    assert stamps([write(tmp_path / "a.txt", "text"), str(tmp_path / "missing.txt")]) is None
