"""What the engine knows of a cell lives as long as the cell."""

from __future__ import annotations

import gc
import weakref

import torch

from weft.nn import RNN


def test_a_cell_that_nobody_uses_any_more_is_gone():
    rnn = RNN("elman", 4, 6)
    output, _ = rnn(torch.randn(2, 3, 4))
    output.sum().backward()
    cell = weakref.ref(rnn.layers[0].cells[0])
    del rnn, output
    gc.collect()
    assert cell() is None


def test_the_plan_of_plain_torch_speaks_of_no_kernel():
    explained = RNN("mut1", 4, 6).double().explain()
    assert "runs in plain torch" in explained
    assert "in one kernel" not in explained
