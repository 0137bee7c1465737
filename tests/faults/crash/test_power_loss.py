"""Whatever a loss of power leaves on the disk, a run goes on from a whole checkpoint and ends with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.faults.crash.disk import LOSSES, Disk, File, State, states, write_tree
from tests.faults.crash.shim import Kind, Operation
from tests.faults.crash.trial import Outcome, Trials, Tried, promised

SAMPLE = 12


@pytest.fixture(scope="session")
def watched(trials: Trials, unbroken: Outcome) -> tuple[Path, list[Operation]]:
    """A run that nothing disturbed, with its file operations."""
    run = trials.fresh()
    trials.train(run)
    return run, trials.operations()


def check(trials: Trials, found: Iterable[State], operations: list[Operation], expected: Outcome) -> Tried:
    """Go on from each state of the disk."""
    tried = Tried()
    for state in found:
        run = trials.fresh()
        write_tree(state.tree, run)
        recovered = trials.recover(run)
        before = operations[: operations.index(state.last) + 1]
        tried.count(
            f"{state.loss.name} after {state.last}",
            (recovered.outcome == expected, f"resumed to another end: {recovered.ended.err}"),
            (recovered.after >= promised(before), f"a checkpoint was lost: {recovered.ended.err}"),
        )
        trials.remove(run)
    return tried


def test_some_losses(trials: Trials, watched: tuple[Path, list[Operation]], unbroken: Outcome) -> None:
    run, operations = watched
    tried = check(trials, states(run, operations, every=max(1, len(operations) // SAMPLE)), operations, unbroken)
    assert tried.number > SAMPLE // 2
    assert not tried.faults, str(tried)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_loss(
    trials: Trials,
    watched: tuple[Path, list[Operation]],
    unbroken: Outcome,
    record_property: Callable[[str, object], None],
) -> None:
    run, operations = watched
    tried = check(trials, states(run, operations), operations, unbroken)
    record_property("faults", f"states of the disk after a loss of power: {tried}")
    assert tried.number > 100
    assert not tried.faults, str(tried)


def test_the_name_of_a_new_run_is_on_the_disk_when_a_checkpoint_is(trials: Trials, unbroken: Outcome) -> None:
    run = trials.fresh()
    run.rmdir()
    trials.train(run, root=run.parent)
    disk = Disk(run.parent)
    for done in trials.operations():
        disk.do(done)
    everything_lost = next(loss for loss in LOSSES if loss.name == "all lost")
    assert any(path.startswith("run/checkpoints/") for path in disk.after(everything_lost))


def test_the_disk_that_loses_nothing_is_the_one_that_is_there(watched: tuple[Path, list[Operation]]) -> None:
    run, operations = watched
    disk = Disk(run)
    for done in operations:
        disk.do(done)
    there = {str(path.relative_to(run)): path.read_bytes() if path.is_file() else None for path in run.rglob("*")}
    assert disk.after(LOSSES[0]) == there


def operation(name: str, path: str, inode: int, *, place: int = 0, to: str = "", data: bytes = b"") -> Operation:
    return Operation(1, name, Kind.WRITE, inode, 0, 0, place, f"/d/{path}".rstrip("/"), f"/d/{to}" if to else "", data)


def test_what_a_disk_loses() -> None:
    disk = Disk(Path("/d"))
    disk.do(operation("create", "a.tmp", 2, place=1))
    disk.do(operation("write", "a.tmp", 2, data=b"abcd"))
    disk.do(operation("rename", "a.tmp", 2, to="a"))
    found = {loss.name: disk.after(loss) for loss in LOSSES}
    assert found["nothing lost"] == {"a": b"abcd"}
    assert found["all lost"] == found["names lost"] == {}
    assert found["data lost"] == {"a": b""}
    assert found["data cut"] == {"a": b"ab"}
    assert found["data zero"] == {"a": bytes(4)}
    assert found["later names lost"] == {"a.tmp": b""}
    disk.do(operation("open", "", 1))
    disk.do(operation("sync", "", 1))
    disk.do(operation("sync", "a", 2))
    assert all(disk.after(loss) == {"a": b"abcd"} for loss in LOSSES)
    assert isinstance(disk.nodes[2], File)
