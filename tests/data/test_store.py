"""Entries on disk: whole or absent, found by key, checked when opened, limited in size."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.data import VALUES, Store, key_of

BIG = f"big{VALUES}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def put(store: Store, key: str, *, small: str = "small", big: bytes = b"12345678") -> Path:
    with store.make(key) as folder:
        (folder / "small.json").write_text(small, encoding="utf-8")
        (folder / BIG).write_bytes(big)
    entry = store.find(key)
    assert entry is not None
    return entry


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_entry_is_found_under_its_key_alone(store: Store) -> None:
    assert store.find("a") is None
    entry = put(store, "a")
    assert (entry / "small.json").read_text(encoding="utf-8") == "small"
    assert store.find("b") is None
    assert names(store.folder) == ["a"], "nothing is left of the making"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("small.json", b"smalk"),
        ("small.json", b""),
        (BIG, b"1234567"),
        (BIG, b"12345679"),
        ("small.json", None),
        (BIG, None),
        ("entry.json", None),
        ("entry.json", b"{"),
        ("entry.json", b"[]"),
        ("entry.json", b'{"small.json": 3}'),
        ("entry.json", b'{"small.json": [1, 2, 3]}'),
        ("entry.json", b"{}"),
        ("entry.json", b"[" * 100_000),
        ("planted", b"not listed"),
    ],
)
def test_a_damaged_entry_is_as_good_as_none_and_can_be_made_anew(store: Store, name: str, damage: bytes | None) -> None:
    entry = put(store, "a")
    if damage is None:
        (entry / name).unlink()
    else:
        (entry / name).write_bytes(damage)
    assert store.find("a") is None
    assert (put(store, "a") / BIG).read_bytes() == b"12345678"


def linked(entry: Path) -> None:
    moved = entry.rename(entry.parent / "elsewhere")
    entry.symlink_to(moved)


def linked_inside(entry: Path) -> None:
    moved = (entry / BIG).rename(entry.parent / "elsewhere")
    (entry / BIG).symlink_to(moved)


def piped(entry: Path) -> None:
    (entry / BIG).unlink()
    os.mkfifo(entry / BIG)


def no_folder(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_bytes(b"")


@pytest.mark.skipif(os.name == "nt", reason="it has no pipes with names")
@pytest.mark.parametrize("change", [linked, linked_inside, piped, no_folder])
def test_an_entry_that_is_not_plain_files_is_made_anew(store: Store, change: Callable[[Path], None]) -> None:
    change(put(store, "a"))
    assert store.find("a") is None
    assert (put(store, "a") / BIG).read_bytes() == b"12345678"


def test_an_entry_that_cannot_be_read_is_gone(store: Store) -> None:
    put(store, "a")
    assert store.use("a", lambda entry: (entry / "small.json").read_text(encoding="utf-8")) == "small"
    assert store.use("a", lambda entry: int((entry / "small.json").read_text(encoding="utf-8"))) is None
    assert store.find("a") is None


def test_an_error_while_writing_leaves_nothing(store: Store) -> None:
    def fill_the_disk() -> None:
        with store.make("a") as folder:
            (folder / "half").write_text("half", encoding="utf-8")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill_the_disk()
    assert names(store.folder) == []


def test_of_two_that_write_at_once_the_first_stays(store: Store) -> None:
    with store.make("a") as late:
        (late / "small.json").write_text("late", encoding="utf-8")
        put(store, "a", small="first")
    entry = store.find("a")
    assert entry is not None
    assert (entry / "small.json").read_text(encoding="utf-8") == "first"
    assert names(store.folder) == ["a"]


def test_a_process_killed_while_writing_leaves_no_entry_and_its_rest_is_removed_in_time(store: Store) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from weft.data import Store
        with Store(Path({str(store.folder)!r})).make("a") as folder:
            (folder / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    (rest,) = store.folder.iterdir()
    assert store.find("a") is None
    put(store, "b")
    assert rest.exists(), "it may still be written to"
    yesterday = time.time() - 25 * 3600
    for path in (*rest.iterdir(), rest):
        os.utime(path, (yesterday, yesterday))
    put(store, "c")
    assert not rest.exists()


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, most=3 * 1300)
    for age, key in enumerate(["a", "b", "c"]):
        entry = put(store, key, big=bytes(1000))
        os.utime(entry / "entry.json", (age, age))
    assert store.find("a") is not None, "used just now"
    put(store, "d", big=bytes(1000))
    assert names(tmp_path) == ["a", "c", "d"]


def test_an_entry_larger_than_the_limit_stays_while_it_is_the_newest(tmp_path: Path) -> None:
    store = Store(tmp_path, most=10)
    put(store, "a")
    put(store, "b")
    assert names(tmp_path) == ["b"]


def test_what_was_there_before_is_made_anew_once(store: Store) -> None:
    put(store, "a", small="old")
    put(store, "b", small="old")
    store.renew()
    assert store.find("a") is None
    assert (put(store, "a", small="new") / "small.json").read_text(encoding="utf-8") == "new"
    assert store.find("a") is not None, "made since"
    assert len(store) == 2, "what nobody asks for stays"


def test_a_key_depends_on_every_part() -> None:
    parts = ["survey", {"unit": "line", "skip": False}, None]
    others = [["survey", {"unit": "line", "skip": True}, None], ["survey", {"unit": "line"}, None], parts[:2]]
    assert key_of(*parts) == key_of("survey", {"skip": False, "unit": "line"}, None)
    assert len({key_of(*parts), *(key_of(*other) for other in others)}) == 4
