"""Turns, medians, and the folder for compiled kernels, with a clock that is told the time."""

from __future__ import annotations

import gc
import os

import pytest
import torch

from weft.bench import Case, Size, cold_cache, load_warning, timing
from weft.bench.recurrence.memory import peak_in_process
from weft.bench.timing import Contender, time_in_turn

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """Contenders that take the seconds they are told to, one after the other, and the order in which they ran."""
    now, ran = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def contender(name, *seconds, every=1):
        left = iter(seconds)

        def run():
            ran.append(name)
            now[0] += next(left)

        return Contender(run, every)

    contender.ran = ran
    return contender


def test_contenders_take_turns_back_and_forth(clock):
    contenders = {"a": clock("a", *[1.0] * 5), "b": clock("b", *[1.0] * 5), "c": clock("c", *[1.0] * 3, every=2)}
    time_in_turn(contenders, rounds=4, device=CPU)
    assert "".join(clock.ran) == "abc" + "abc" + "ba" + "abc" + "ba"


def test_the_median_without_the_first_call(clock):
    contenders = {"a": clock("a", 100.0, 3.0, 1.0, 50.0), "b": clock("b", 0.0, 7.0, 7.0, 8.0)}
    assert time_in_turn(contenders, rounds=3, device=CPU) == pytest.approx({"a": 3.0, "b": 7.0})


def test_the_collector_waits_while_samples_are_taken():
    enabled = []
    time_in_turn({"a": Contender(lambda: enabled.append(gc.isenabled()))}, rounds=2, device=CPU)
    assert enabled == [True, False, False]
    assert gc.isenabled()


def test_a_busy_machine_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 0.0, 0.0))
    assert "load average 1.25" in load_warning(CPU)
    assert load_warning(torch.device("cuda")) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (0.4, 9.0, 9.0))
    assert load_warning(CPU) is None


def test_a_cold_cache_is_an_empty_folder_for_a_while(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    with cold_cache():
        assert os.environ["WEFT_CACHE"] != str(tmp_path)
        assert os.environ["TRITON_CACHE_DIR"]
    assert os.environ["WEFT_CACHE"] == str(tmp_path)
    assert "TRITON_CACHE_DIR" not in os.environ
    with cold_cache(wanted=False):
        assert os.environ["WEFT_CACHE"] == str(tmp_path)


def test_peak_memory_holds_what_the_backward_pass_needs():
    batch, steps, hidden = 8, 256, 64
    found = peak_in_process(Case(cell="lstm", size=Size(batch, steps, hidden), place="cpu", dtype="float32"), "weft")
    gates = 4 * 4 * batch * steps * hidden
    assert gates < found < 20 * gates
