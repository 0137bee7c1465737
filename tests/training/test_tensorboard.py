"""TensorBoard gets the numbers of the journal."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from weft.errors import RunError
from weft.training import Ended, Numbers, Started, Update, Validated, tensorboard
from weft.training.tensorboard import TensorBoard

pytestmark = pytest.mark.usefixtures("extras")


def started(done=0):
    return Started("lm", 10, 2, 100, steps=30, steps_per_epoch=10, device="cpu", notes=(), done=done)


def step(number, loss):
    return Update(number, tokens=100, rate=0.5, seconds=0.25, numbers=Numbers(loss, 2.0))


def scalars(folder, name):
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def write(folder, *events):
    with TensorBoard(folder) as board:
        for event in events:
            board.write(event)


def test_updates_and_validations_are_written(tmp_path):
    write(tmp_path, started(), step(1, 4.0), step(2, 3.5), step(10, 3.0), Validated(10, {"loss": 2.5}, True))
    assert scalars(tmp_path, "train/loss") == [(1, 4.0), (10, 3.0)]
    assert scalars(tmp_path, "train/rate") == [(1, 0.5), (10, 0.5)]
    assert scalars(tmp_path, "train/gradient") == [(1, 2.0), (10, 2.0)]
    assert scalars(tmp_path, "train/tokens_per_second") == [(1, 400.0), (10, 400.0)]
    assert scalars(tmp_path, "valid/loss") == [(10, 2.5)]


def test_a_run_that_goes_on_takes_back_what_came_after_its_checkpoint(tmp_path):
    write(tmp_path, started(), step(10, 3.0), step(20, 2.0))
    write(tmp_path, started(done=10), step(20, 2.5), step(30, 1.5), Ended(30, "all updates done"))
    assert scalars(tmp_path, "train/loss") == [(10, 3.0), (20, 2.5), (30, 1.5)]


def test_without_the_package_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    write(tmp_path, started(), step(10, 3.0))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fails_does_not_end_the_training(tmp_path):
    (tmp_path / "tensorboard").write_text("in the way", encoding="utf-8")
    with TensorBoard(tmp_path) as board:
        board.write(started())
        board.write(step(10, 3.0))
        assert not board.wanted
        board.write(step(20, 2.0))


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_still_awaited_is_written_at_the_end(tmp_path, ended):
    events = [started(), step(10, 3.0), *([Ended(10, "done")] if ended else [])]
    write(tmp_path, *events)
    assert scalars(tmp_path, "train/loss") == [(10, 3.0)]


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "tensorboard").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="tensorboard: is a link, which is never followed"):
        write(tmp_path, started(), step(10, 3.0))
    assert not list((tmp_path / "outside").iterdir())
