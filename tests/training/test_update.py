"""Numbers that arrive late: nobody waits for them, and everybody gets them in the end."""

from __future__ import annotations

import io
import json

import pytest
import torch
from rich.console import Console

from weft.errors import Fault
from weft.training import Awaited, Ended, Journal, Numbers, Saving, Started, Update, Validated
from weft.training.progress import Watch


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_on_a_processor_numbers_are_there_at_once():
    numbers = Numbers.of(torch.tensor(2.5, requires_grad=True), torch.tensor(3.0, dtype=torch.float64))
    assert numbers.arrived
    assert numbers.read() == (2.5, 3.0)


def test_steps_are_given_out_in_order_and_only_when_they_have_arrived(late_step):
    awaited, given = Awaited(), [late_step(number) for number in (1, 2, 3)]
    for step in given:
        awaited.add(step)
    given[1].numbers.here = True
    assert list(awaited.arrived()) == [], "the first is still missing"
    given[0].numbers.here = True
    assert list(awaited.arrived()) == given[:2]
    assert list(awaited.all()) == given[2:]
    assert list(awaited.all()) == []


def test_the_journal_has_a_line_for_every_tenth_update_and_every_validation(tmp_path):
    with Journal(tmp_path / "metrics.jsonl") as journal:
        for number in range(1, 21):
            journal.write(Update(number, 10, 0.1, 0.01, Numbers(1.0 / number, 1.0)))
        assert [line["step"] for line in lines(journal.path)] == [1, 10, 20], "written as training goes"
        journal.write(Validated(20, {"accuracy": 0.5}, best=True))
    written = lines(journal.path)
    assert [line["step"] for line in written] == [1, 10, 20, 20]
    assert written[1]["loss"] == 0.1
    assert written[1]["tokens_per_second"] == pytest.approx(1000)
    assert written[-1]["valid"] == {"accuracy": 0.5}


@pytest.mark.parametrize("last", [Validated(20, {}, best=False), Ended(20, "all updates done")])
def test_the_journal_waits_for_no_update_before_a_validation_or_the_end(tmp_path, late_step, last):
    steps = [late_step(number) for number in range(1, 21)]
    with Journal(tmp_path / "metrics.jsonl") as journal:
        for step in steps[:12]:
            journal.write(step)
        assert lines(journal.path) == []
        for step in steps[:12]:
            step.numbers.here = True
        journal.write(steps[12])
        assert [line["step"] for line in lines(journal.path)] == [1, 10]
        for step in steps[13:]:
            journal.write(step)
            step.numbers.here = True
        journal.write(last)
        assert [line["step"] for line in lines(journal.path)][:3] == [1, 10, 20]


def test_what_has_arrived_is_written_even_if_training_fails(tmp_path, late_step):
    steps = [late_step(number) for number in (10, 20)]
    journal = Journal(tmp_path / "metrics.jsonl")
    for step in steps:
        journal.write(step)
    steps[0].numbers.here = True
    journal.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [10]


def test_the_terminal_shows_what_has_arrived_and_waits_for_nothing(late_step):
    screen = io.StringIO()
    steps = [late_step(number, loss=float(number)) for number in (1, 2, 3)]
    with Watch(console=Console(file=screen, width=200)) as watch:
        watch.show(Started("lm", 9, 3, 100, 3, 3, "cuda", ()))
        watch.show(steps[0])
        assert watch.loss is None
        steps[0].numbers.here = steps[1].numbers.here = True
        watch.show(steps[1])
        assert watch.loss == pytest.approx(1.0 + 0.05 * (2.0 - 1.0))
        watch.show(steps[2])
        assert watch.loss == pytest.approx(1.05)
        watch.show(Validated(3, {"perplexity": 2.0}, best=True))
    assert "loss 1.050  valid: perplexity 2.000" in screen.getvalue()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
def test_on_a_gpu_reading_waits_for_the_value():
    slow = torch.eye(4096, device="cuda")
    for _ in range(50):
        slow = slow @ slow
    numbers = Numbers.of(slow.sum() * 0 + 2.5, torch.ones((), device="cuda"))
    assert numbers.read() == (2.5, 1.0)
    assert numbers.arrived


def test_a_line_that_could_not_be_written_comes_with_the_next_event(tmp_path):
    """A checkpoint counts the lines of its journal, so none may be missing once the disk works again."""
    folder = tmp_path / "missing"
    with Journal(folder / "metrics.jsonl") as journal:
        with pytest.raises(Fault, match="cannot be written"):
            journal.write(Update(10, tokens=1, rate=0.1, seconds=1.0, numbers=Numbers(2.0, 1.0)))
        folder.mkdir()
        journal.write(Saving(10))
        assert [line["step"] for line in lines(folder / "metrics.jsonl")] == [10]
        journal.write(Ended(10, "done"))
    assert [line["step"] for line in lines(folder / "metrics.jsonl")] == [10]
