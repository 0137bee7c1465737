"""Cells of one or two units: sizes that equal offsets, or each other, get no name twice in generated code."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
import torch
from tests.nn.recurrent.conftest import VARIANTS, Traces
from torch.testing import assert_close

from weft.nn import CELLS, RNN, Cell, CellChoice
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.loop_triton_source import TritonLoopSource
from weft.nn.recurrent.engine.plan import Plan
from weft.nn.recurrent.engine.triton_source import TritonSource

ONCE = re.compile(r"(v|p|q)\d+(_\d+)?|.*_once\d+")
"""Names that generated kernels assign to once in a step, or before all steps."""


@pytest.mark.parametrize("hidden", [1, 2])
@pytest.mark.parametrize("choice", [*CELLS, *VARIANTS, Traces], ids=str)
def test_a_small_cell_equals_the_reference(choice: CellChoice, hidden: int) -> None:
    torch.manual_seed(2)
    if isinstance(choice, dict) and choice["kind"] == "projected_lstm":
        choice = choice | {"projection": 1}
    fast, plain = (RNN(choice, 3, hidden, bidirectional=True, backend=backend) for backend in ("engine", "reference"))
    plain.load_state_dict(fast.state_dict())
    results = []
    for rnn in (fast, plain):
        x = torch.linspace(-1, 1, 36).view(3, 4, 3).requires_grad_()
        output, _ = rnn(x, torch.tensor([4, 2, 0]))
        output.pow(2).sum().backward()
        results.append([output, x.grad, *(weight.grad for weight in rnn.parameters())])
    assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [1, 2])
@pytest.mark.parametrize("kind", CELLS)
def test_a_triton_kernel_assigns_each_name_once(kind: str, hidden: int) -> None:
    (cell,) = RNN(kind, 3, hidden).stack()[0].cells
    assert isinstance(cell, Cell)
    plan = plan_of(cell)
    assert isinstance(plan, Plan)
    kernels = plan.kernels
    assert kernels is not None
    if kernels.lanes is None:
        text = TritonSource(kernels.program, kernels.adjoint, kernels.layout, kernels.biased).text
    else:
        text = TritonLoopSource(kernels, 2).text
    for function in (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)):
        names = Counter(
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and ONCE.fullmatch(target.id)
        )
        assert not {name for name, count in names.items() if count > 1}, function.name
