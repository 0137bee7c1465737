"""Batches made by a thread: their order, their errors, and that the thread ends when the loop does."""

from __future__ import annotations

import threading
import traceback
from contextlib import closing
from dataclasses import dataclass

import pytest
import torch

from weft.tasks import Batch
from weft.training import ahead

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Numbered(Batch):
    number: int


def numbered(count):
    return (Numbered(1, number) for number in range(count))


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "batches"]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_order_is_kept_and_nothing_is_lost(depth):
    assert [batch.number for batch in ahead(numbered(100), CPU, depth=depth)] == list(range(100))
    assert not workers()


def test_they_are_made_ahead_by_another_thread_and_no_further_than_asked():
    made, third = [], threading.Event()

    def source():
        for batch in numbered(100):
            made.append(threading.current_thread())
            if len(made) == 3:
                third.set()
            yield batch

    with closing(ahead(source(), CPU, depth=2)) as batches:
        assert next(batches).number == 0
        assert third.wait(30), "two wait in the queue, and a third may be in the making"
        assert len(made) <= 4
        assert threading.current_thread() not in made
    assert len(made) <= 4
    assert not workers()


def test_an_error_comes_out_after_the_batches_before_it_and_says_where_it_was():
    def broken():
        yield from numbered(3)
        raise KeyError("torn page")

    batches = ahead(broken(), CPU)
    assert [next(batches).number for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="torn page") as raised:
        next(batches)
    assert "broken" in [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert not workers()


def forever():
    while True:
        yield Numbered(1, 0)


def test_leaving_early_stops_the_thread():
    for _ in ahead(forever(), CPU):
        assert len(workers()) == 1
        break
    assert not workers()


def divide_by_each():
    with closing(ahead(forever(), CPU)) as batches:
        return [1 / batch.number for batch in batches]


def test_an_error_in_the_loop_stops_the_thread():
    with pytest.raises(ZeroDivisionError):
        divide_by_each()
    assert not workers()


def test_a_generator_that_was_never_started_has_no_thread():
    ahead(forever(), CPU).close()
    assert not workers()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
def test_for_a_gpu_they_are_pinned(points):
    batches = [points(seed=seed) for seed in range(4)]
    found = list(ahead(batches, torch.device("cuda")))
    assert all(batch.x.is_pinned() for batch in found)
    assert all(torch.equal(batch.x, other.x) for batch, other in zip(found, batches, strict=True))
