"""A step of beam search in C against the same step in torch, from equal beams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.decoding import DecodeConfig
from weft.decoding.beam import advance_beam
from weft.decoding.beam_cpu import LIBRARY, CpuBeam
from weft.decoding.beam_state import BeamState
from weft.decoding.request import Request, prepare
from weft.decoding.slots import shape_of
from weft.models.embedding import Output, Vectors
from weft.nn.native.packed_linear import PackedWeights
from weft.text import EOS

SIZE = 24
COUNT = 4
CASES: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 4},
    {"beam": 4, "n_best": 3, "length_penalty": 0.0},
    {"beam": 5, "min_length": 3, "length_penalty": 0.7},
    {"beam": 3, "n_best": 2, "stop": "finished"},
    {"beam": 3, "stop": "finished", "finished": 1},
    {"beam": 3, "stop": "finished", "finished": 5},
]
HELD = ("live", "step", "tokens", "ended", "backpointers", "sums")


@pytest.fixture(autouse=True)
def _outside_of_training() -> Iterator[None]:
    if LIBRARY.load() is None:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    with torch.no_grad(), PackedWeights():
        yield


def begin(request: Request) -> BeamState:
    beams = BeamState(shape_of(request, COUNT), torch.device("cpu"), torch.float32)
    beams.admit(beams.slots, request, torch.arange(COUNT))
    return beams


def ask(config: dict[str, Any], output: Output, prefixes: Sequence[Sequence[int]] | None = None) -> Request:
    settings = DecodeConfig(max_length=9, **config)
    return prepare(output, COUNT, settings, prefixes=prefixes, limits=[9, 4, 9, 6], forbid=(0, 1, 7))  # type: ignore[arg-type]


def finished(beams: BeamState) -> list[set[tuple[int, int, float, float]]]:
    """Of each slot the texts that have ended, which lie in any order: step, place, score and log-probability."""
    parts = (beams.best_step, beams.best_place, beams.best, beams.best_log)
    return [
        {
            (step, place, round(score, 3), round(log, 3))
            for step, place, score, log in zip(*slot, strict=True)
            if score > -torch.inf
        }
        for slot in zip(*(part.tolist() for part in parts), strict=True)
    ]


def assert_alike(found: BeamState, expected: BeamState, rows: tuple[Tensor, Tensor], live: Tensor) -> None:
    """In the slots that were live; what the others hold nobody reads, nor how likely a prefix is."""
    for name in HELD:
        assert_close(getattr(found, name)[live], getattr(expected, name)[live], atol=1e-4, rtol=1e-4, msg=name)
    free = live[:, None] & (torch.arange(found.logs.size(1)) >= found.first[:, None])
    assert_close(found.logs[free], expected.logs[free], atol=1e-4, rtol=1e-4)
    assert finished(found) == finished(expected)
    assert rows[0].view(COUNT, -1)[live].tolist() == rows[1].view(COUNT, -1)[live].tolist()


@pytest.mark.parametrize("vocabulary", [20, 512, 1300])
@pytest.mark.parametrize("config", CASES, ids=str)
@pytest.mark.usefixtures("threads")
def test_steps_are_those_of_torch(config: dict[str, Any], vocabulary: int) -> None:
    output = Output(SIZE, vocabulary)
    output.scores.bias[EOS] = 2.5  # some end early
    request = ask(config, output, [(), (5,), (), (4, 6)])
    both = [begin(request) for _ in range(2)]
    step = CpuBeam(both[0], request, output)
    for _ in range(11):
        live = both[1].live.clone()
        hidden = 2 * torch.randn(COUNT * request.width, SIZE)
        rows = step(hidden), advance_beam(both[1], output(hidden), request, None)
        assert_alike(*both, rows, live)
    assert both[1].ended.any(), "texts have ended"
    assert not both[0].live.any()


def test_prompts_and_empty_places_are_not_scored() -> None:
    output = Output(SIZE, 600)
    request = ask({"beam": 4}, output, [(), (5,), (), (4, 6)])
    both = [begin(request) for _ in range(2)]
    steps = [CpuBeam(beams, request, output) for beams in both]
    for number in range(4):
        hidden = torch.randn(COUNT * 4, SIZE)
        unread = (both[0].sums.view(-1) == -torch.inf) | both[0].inside.repeat_interleave(4)
        assert int(unread.sum()) == (14, 7, 3, 0)[number], "one place of each begins, behind its prompt"
        live = both[0].live.clone()
        rows = steps[0](hidden), steps[1](hidden.masked_fill(unread[:, None], torch.nan))
        assert_alike(*both, rows, live)


def test_rows_do_not_depend_on_their_neighbours() -> None:
    """To the last bit: parts are added up in one order, whoever has made them."""
    output = Output(SIZE, 1300)
    request, hidden = ask({"beam": 4}, output), torch.randn(4 * COUNT, SIZE)
    beams = begin(request)
    CpuBeam(beams, request, output)(hidden)
    for slot in range(COUNT):
        other, here = begin(request), torch.randn(4 * COUNT, SIZE)
        here[:4] = hidden[4 * slot : 4 * slot + 4]
        torch.set_num_threads(1 + slot % 2)
        CpuBeam(other, request, output)(here)
        assert torch.equal(other.sums[0], beams.sums[slot])
        assert torch.equal(other.tokens[0], beams.tokens[slot])


def test_a_tied_output_of_another_width() -> None:
    output = Output(SIZE, 40, tied=Vectors(40, 8))
    request, hidden = ask({"beam": 3}, output), torch.randn(3 * COUNT, SIZE)
    both = [begin(request) for _ in range(2)]
    rows = CpuBeam(both[0], request, output)(hidden), advance_beam(both[1], output(hidden), request, None)
    assert_alike(*both, rows, torch.ones(COUNT, dtype=torch.bool))


def test_nothing_that_may_come() -> None:
    output = Output(SIZE, 10)
    request = prepare(output, COUNT, DecodeConfig(beam=2), prefixes=None, limits=None, forbid=tuple(range(10)))  # type: ignore[arg-type]
    beams = begin(request)
    CpuBeam(beams, request, output)(torch.randn(2 * COUNT, SIZE))
    assert not beams.live.any()
    assert (beams.sums == -torch.inf).all()
    assert not beams.ended.any()
