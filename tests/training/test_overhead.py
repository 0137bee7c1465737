"""The benchmark of the loop compares two ways to make the same update."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from weft.bench import loop
from weft.bench.loop import (
    LoopCase,
    LoopFigures,
    build_learning,
    by_hand,
    forward_and_backward,
    measure_loop,
    tabulate_loop,
)

SMALL = {
    "rnn": {"kind": "rnn", "cell": "lstm", "embedding": 8, "hidden": 8},
    "transformer": {"kind": "transformer", "width": 8, "layers": 1, "heads": 2},
}
CASE = LoopCase("cpu", rows=4, length=6, words=40, dropout=0.0)
PLACES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", SMALL)
def test_the_loop_and_what_is_written_by_hand_make_the_same_updates(kind, place):
    case = replace(CASE, place=place)
    learning, twin = (build_learning(SMALL[kind], case) for _ in range(2))
    twin.model.load_state_dict(copy.deepcopy(learning.model.state_dict()))
    before = copy.deepcopy(learning.model.state_dict())
    steps, update = learning.steps(), by_hand(twin, forward_and_backward(twin), clip=learning.settings.clip)
    for _ in range(3):
        next(steps)
        update()
    torch.testing.assert_close(
        learning.model.state_dict(), twin.model.state_dict(), rtol=0, atol=1e-6 if place == "cpu" else 1e-5
    )
    assert not any(map(torch.equal, learning.model.parameters(), before.values()))


def test_every_contender_is_timed(monkeypatch):
    monkeypatch.setitem(loop.MODELS, "cpu", SMALL)
    found = measure_loop("rnn", CASE, repeats=2)
    assert found.seconds.keys() == {"bare", "clipped", "loop"}
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.tree()["added_to_bare"] == found.added["bare"]


def test_the_table_shows_shares_of_time():
    figures = LoopFigures(
        "rnn", 1000, {"bare": 0.010, "clipped": 0.011, "loop": 0.012}, {"bare": 0.2, "clipped": -0.05}
    )
    headings, [line] = tabulate_loop([figures])
    assert dict(zip(headings, line, strict=True)) == {
        "model": "rnn",
        "parameters": "1,000",
        "bare ms": "10.00",
        "clipped ms": "11.00",
        "loop ms": "12.00",
        "beyond bare": "+20.0%",
        "beyond clipped": "-5.0%",
    }
