"""A folder for a run is held by one process, and nobody removes what is another's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.errors import RunError
from weft.run.folder import lock
from weft.run.folder.lock import claim_folder, lock_folder

STARTS, ROUNDS = 4, 150


class Failed(Exception):
    """The training came to an end before it had written anything."""


def together(starts: int, action: Callable[[int], None]) -> None:
    """Run an action in several threads, all released at once; a lock is held by an open folder, not by a process."""
    barrier = threading.Barrier(starts, timeout=10)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            action(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(starts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_of_starts_into_one_folder_one_trains_and_the_others_are_told(tmp_path: Path) -> None:
    for round_ in range(ROUNDS):
        folder, said = tmp_path / str(round_), list[str]()
        everyone = threading.Barrier(STARTS, timeout=10)

        def start(
            number: int, folder: Path = folder, said: list[str] = said, met: threading.Barrier = everyone
        ) -> None:
            try:
                with claim_folder(folder, "lm"):
                    met.wait()  # the losers have left their blocks, and with them what they would remove
                    (folder / "metrics.jsonl").write_text(str(number), encoding="utf-8")
                    said.append("trains")
            except RunError as error:
                said.append(error.what)
                met.wait()

        together(STARTS, start)
        assert sorted(said) == ["another process is training here"] * (STARTS - 1) + ["trains"]
        assert (folder / "metrics.jsonl").exists()


def test_starts_without_a_folder_get_one_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for round_ in range(ROUNDS):
        names: list[str] = []
        everyone = threading.Barrier(STARTS, timeout=10)

        def start(number: int, names: list[str] = names, met: threading.Barrier = everyone) -> None:
            with claim_folder(None, "lm") as folder:
                names.append(folder.name)
                met.wait()
                (folder / "metrics.jsonl").write_text(str(number), encoding="utf-8")

        together(STARTS, start)
        first = round_ * STARTS + 1
        assert sorted(names) == sorted(f"lm-{number}" for number in range(first, first + STARTS))


def test_starts_that_fail_remove_their_own_folders_and_no_others(tmp_path: Path) -> None:
    for round_ in range(ROUNDS):
        folder, kept = tmp_path / str(round_) / "run", list[int]()

        def start(number: int, folder: Path = folder, kept: list[int] = kept) -> None:
            try:
                with claim_folder(folder, "lm"):
                    if number % 2:
                        raise Failed
                    (folder / "metrics.jsonl").write_text(str(number), encoding="utf-8")
                    kept.append(number)
            except (Failed, RunError):
                pass

        together(STARTS, start)
        if kept:
            assert (folder / "metrics.jsonl").read_text(encoding="utf-8") == str(kept[0])
        assert len(kept) <= 1, "who comes later finds a folder that is not empty"


def test_a_folder_that_was_removed_before_it_was_locked_is_claimed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, folder = lock._lock, tmp_path / "run"

    def removed_meanwhile(path: Path) -> int | None:
        monkeypatch.setattr(lock, "_lock", hold)
        held = hold(path)
        path.rmdir()
        return held

    monkeypatch.setattr(lock, "_lock", removed_meanwhile)
    with claim_folder(folder, "lm"):
        assert folder.is_dir()
        with pytest.raises(RunError, match="another process"), lock_folder(folder):
            pass


def test_a_fault_removes_what_was_made_and_nothing_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "mine", tmp_path / "new" / "run"):
        with pytest.raises(Failed), claim_folder(folder, "lm"):
            raise Failed
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "nothing")
    with pytest.raises(RunError, match="is a link to nothing"), claim_folder(tmp_path / "run", "lm"):
        pass
