"""A comparison is fair when everybody computes the same thing."""

from __future__ import annotations

import pytest
from torch.testing import assert_close

from weft.bench import Case, Size
from weft.bench.recurrence.contenders import Workload
from weft.errors import ConfigError
from weft.nn import CELLS
from weft.nn.recurrent.engine.backends import BACKENDS


def case(cell="lstm", **options):
    return Case(cell=cell, size=Size(3, 5, 8), place="cpu", dtype="float32", **options)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru_reset_after", "elman"])
def test_all_give_the_same_gradient(cell, lengths, bidirectional):
    work = Workload(case(cell, lengths=lengths, bidirectional=bidirectional), CELLS)
    expected = work.eager()()
    assert expected.shape == (3, 5, 8)
    assert_close(work.weft()(), expected, rtol=1e-4, atol=1e-5)
    assert_close(work.torch()(), expected, rtol=1e-4, atol=1e-5)


def test_torch_is_asked_only_for_what_it_has():
    with pytest.raises(ConfigError, match="torch has no module"):
        Workload(case("peephole_lstm"), CELLS).torch()


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_the_backend_is_the_one_that_is_explained(dtype):
    work = Workload(Case(cell="mut1", size=Size(2, 3, 4), place="cpu", dtype=dtype), CELLS)
    backend, reason = work.backend()
    line = work.rnn.explain().splitlines()[0]
    assert f"runs {BACKENDS[backend].words}" in line
    assert reason in line


def test_lengths_reach_from_half_to_all_of_the_time():
    lengths = case(lengths=True).row_lengths()
    assert sorted(lengths.tolist()) == [2, 4, 5]  # round(3.5) is the even neighbour
    assert case().row_lengths().tolist() == [5, 5, 5]


def test_with_autocast_the_weights_stay_as_they_are():
    work = Workload(Case(cell="lstm", size=Size(2, 3, 4), place="cpu", dtype="bf16", autocast=True), CELLS)
    assert str(work.weft()().dtype) == "torch.float32"
    plain = Workload(Case(cell="lstm", size=Size(2, 3, 4), place="cpu", dtype="bf16"), CELLS)
    assert str(plain.weft()().dtype) == "torch.bfloat16"
