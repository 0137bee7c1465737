"""What the planner makes of a step: what leaves the loop, the stages that stay in it, what is kept for the way back."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from weft.nn import CELLS, RNN, Cell, CellChoice
from weft.nn.recurrent import build_cell
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.c_source import CSource
from weft.nn.recurrent.engine.colours import is_product
from weft.nn.recurrent.engine.plan import Kernels, Plan
from weft.nn.recurrent.engine.run import plan_of


class Expected(NamedTuple):
    """Of a cell of 5 inputs and 6 hidden numbers.

    hoisted: columns made before the loop. products: depth, width and stage of each. kept: columns beside the states
    that the backward pass reads.
    """

    hoisted: list[int]
    products: list[tuple[int, int, int]]
    backward: int
    kept: int


PLANS: dict[str, tuple[CellChoice, Expected]] = {
    "elman": ("elman", Expected([6], [(6, 6, 1)], 1, 0)),
    "elman relu": ({"kind": "elman", "activation": "relu"}, Expected([6], [(6, 6, 1)], 1, 0)),
    "elman feedback": (
        {"kind": "elman", "feedback": True},
        Expected([5], [(6, 5, 1), (6, 6, 1), (5, 6, 2), (6, 6, 3)], 3, 5),
    ),
    "lstm": ("lstm", Expected([24], [(6, 24, 1)], 1, 24)),
    "lstm sigmoid": ({"kind": "lstm", "candidate": "sigmoid"}, Expected([24], [(6, 24, 1)], 1, 24)),
    "peephole_lstm": ("peephole_lstm", Expected([24], [(6, 24, 1)], 1, 24)),
    "peephole_lstm full": (
        {"kind": "peephole_lstm", "peepholes": "full"},
        Expected([24], [(6, 12, 1), (6, 24, 1), (6, 6, 2)], 2, 24),
    ),
    "coupled_lstm": ("coupled_lstm", Expected([18], [(6, 18, 1)], 1, 18)),
    "projected_lstm": ("projected_lstm", Expected([24], [(3, 24, 1), (6, 3, 2)], 2, 24)),
    "gru": ("gru", Expected([18], [(6, 12, 1), (6, 6, 2)], 2, 18)),
    "gru state": ({"kind": "gru", "update": "state"}, Expected([18], [(6, 12, 1), (6, 6, 2)], 2, 18)),
    "gru_reset_after": ("gru_reset_after", Expected([18], [(6, 6, 1), (6, 12, 1)], 1, 24)),
    "mut1": ("mut1", Expected([18], [(6, 6, 1), (6, 6, 2)], 2, 24)),
    "mut2": ("mut2", Expected([18], [(6, 12, 1), (6, 6, 2)], 2, 18)),
    "mut3": ("mut3", Expected([18], [(6, 6, 1), (6, 6, 1), (6, 6, 2)], 2, 18)),
    "minimal_gated": ("minimal_gated", Expected([12], [(6, 6, 1), (6, 6, 2)], 2, 12)),
    "janet": ("janet", Expected([12], [(6, 12, 1)], 1, 18)),
    "ind_rnn": ("ind_rnn", Expected([6], [], 0, 0)),
    "sru": ("sru", Expected([24], [], 0, 24)),
    "qrnn": ("qrnn", Expected([5, 18], [(5, 18, 1)], 1, 23)),
    "min_gru": ("min_gru", Expected([12], [], 0, 12)),
    "min_lstm": ("min_lstm", Expected([18], [], 0, 30)),
    "rg_lru": ("rg_lru", Expected([18], [], 0, 30)),
    "hgrn": ("hgrn", Expected([18], [], 0, 30)),
    "s_lstm": ("s_lstm", Expected([24], [(6, 6, 1)] * 4, 1, 48)),
}


def plan(choice: CellChoice, input_size: int = 5, hidden_size: int = 6) -> Plan:
    found = plan_of(build_cell(choice, input_size, hidden_size))
    assert isinstance(found, Plan), found
    return found


def kernels(choice: CellChoice) -> Kernels:
    found = plan(choice)
    assert found.kernels is not None, found.refusal
    return found.kernels


def products(graph: fx.GraphModule) -> int:
    return sum(is_product(node) for node in graph.graph.nodes)


def test_every_cell_of_the_catalog_is_here() -> None:
    assert {choice if isinstance(choice, str) else choice["kind"] for choice, _ in PLANS.values()} == CELLS.keys()


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_of_every_cell(name: str) -> None:
    choice, expected = PLANS[name]
    made = kernels(choice)
    program = made.program
    assert program.hoisted == expected.hoisted
    found = [(product.depth, product.width, product.stage) for product in program.products]
    assert sorted(found, key=lambda product: product[::-1]) == sorted(expected.products, key=lambda p: p[::-1])
    assert program.stages == max((stage for _, _, stage in expected.products), default=0)
    assert made.adjoint.last == expected.backward
    assert sum(expr.width for expr in made.adjoint.saved) <= expected.kept


@pytest.mark.parametrize("name", PLANS)
def test_one_product_of_the_input_before_the_loop(name: str) -> None:
    split = plan(PLANS[name][0]).split
    needs_state = name == "elman feedback"  # what the state gives is added to the input before its product
    assert products(split.before) == (0 if needs_state else 1)
    assert split.after is None


@pytest.mark.parametrize("name", ["lstm", "coupled_lstm", "gru", "mut2", "mut3"])
def test_what_is_kept_lies_over_what_it_was_made_from(name: str) -> None:
    layout = kernels(name).layout
    assert layout.saved == 0
    assert layout.overwritten == [0]
    assert len(set(layout.kept)) == len(layout.kept)


@pytest.mark.parametrize("name", PLANS)
def test_the_way_back_stores_a_value_once_it_is_known(name: str) -> None:
    """What the step before is given needs no later stage just because it is read last."""
    found = kernels(PLANS[name][0])
    stages = [(found.adjoint.level(store.expr), n) for n, stage in enumerate(found.layout.backward) for store in stage]
    assert all(known == stored for known, stored in stages)


def test_an_elman_network_keeps_nothing_but_its_states() -> None:
    for activation in ("tanh", "relu", "sigmoid", "identity"):
        layout = kernels({"kind": "elman", "activation": activation}).layout
        assert (layout.kept, layout.saved, layout.overwritten) == ([], 0, [])


def test_the_output_of_most_cells_is_a_history() -> None:
    assert kernels("lstm").emitted == [Argument(Kind.HISTORY, 0)]
    assert kernels({"kind": "elman", "feedback": True}).emitted == [Argument(Kind.HISTORY, 1)]


class Separate(Cell):
    """Maps of the input one by one, of which one is read by the output alone."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.output_size = 4
        self.a = nn.Linear(input_size, hidden_size)
        self.b = nn.Linear(input_size, hidden_size, bias=False)
        self.c = nn.Linear(input_size, 4)
        self.u = nn.Linear(hidden_size, hidden_size)
        self.read = nn.Linear(hidden_size, 4)
        self.scale = nn.Parameter(torch.ones(hidden_size))

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.a(x) + self.u(h)) * torch.sigmoid(self.b(x)) * torch.exp(self.scale)
        return torch.relu(self.read(h) + self.c(x)), h


def test_separate_maps_of_the_input_become_one_product() -> None:
    split = plan(Separate).split
    assert products(split.before) == 1
    assert sum(node.op == "placeholder" for node in split.before.graph.nodes) == 1 + len(plan(Separate).names)


def test_what_only_the_output_needs_is_done_after_the_loop() -> None:
    found = plan(Separate)
    assert found.split.after is not None
    assert products(found.split.after) == 1
    assert found.kernels is not None
    assert [(p.depth, p.width) for p in found.kernels.program.products] == [(6, 6)]
    assert found.kernels.emitted == [Argument(Kind.HISTORY, 0)]


def test_what_depends_on_parameters_alone_is_done_once() -> None:
    found = kernels(Separate)
    assert list(found.program.vectors.values()) == [6]
    operations = {expr.op for row in found.program.after for expr in row}
    assert "exp" not in operations


def test_a_step_without_a_product_has_no_stage() -> None:
    class Leaky(Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.from_input = nn.Linear(input_size, hidden_size)

        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = 0.9 * h + torch.tanh(self.from_input(x))
            return h, h

    made = kernels(Leaky)
    assert (made.program.stages, made.adjoint.last, made.program.products) == (0, 0, [])
    assert (made.program.hoisted, made.adjoint.saved) == ([6], [])


class Counter(TorchDispatchMode):
    """Counts torch's matrix products."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "expected"), [("elman", 4), ("lstm", 4), ("gru", 5)])
def test_products_outside_the_loop_do_not_grow_with_time(name: str, expected: int) -> None:
    """Forward one; backward two for it, and one for each weight of the loop: all time steps at once."""
    rnn = RNN(name, 5, 6, backend="engine")
    for time in (2, 20):
        output, _ = rnn(torch.randn(3, time, 5, requires_grad=True))
        with Counter() as counter:
            rnn(torch.randn(3, time, 5, requires_grad=True))[0].sum().backward()
        assert counter.count == expected
        assert output.shape == (3, time, 6)


class Refused(Cell):
    """A step that some test fills in."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.w = nn.Linear(input_size, hidden_size)
        self.u = nn.Linear(hidden_size, hidden_size)
        self.alone = [torch.ones(hidden_size)]
        self.norm = nn.BatchNorm1d(hidden_size)


REFUSED: dict[str, tuple[str, Any]] = {
    "noise": ("draws random numbers", lambda c, x, h: (h, torch.tanh(c.w(x) + torch.rand_like(h)))),
    "dropout": ("draws random numbers", lambda c, x, h: (h, functional.dropout(torch.tanh(c.w(x) + h)))),
    "in place": ("changes a tensor in place", lambda c, x, h: (h, h.mul_(0.5) + c.w(x))),
    "in place, a part": ("changes a tensor in place", lambda c, x, h: (h, c.w(x)[:, :3].mul_(2).repeat(1, 2) + h)),
    "in place, a weight": ("changes a tensor in place", lambda c, x, h: (h, c.w(x) + c.u.bias.mul_(2) * h)),
    "running mean": ("changes a tensor in place", lambda c, x, h: (h, c.norm(c.w(x) + h))),
    "if": ("depends on the values of a tensor", lambda c, x, h: (h, c.w(x) if h.max() > 0 else h)),
    "stray tensor": ("neither a parameter nor a buffer", lambda c, x, h: (h, c.w(x) + c.alone[0] * h)),
    "structure": ("another structure", lambda c, x, h: (h, (c.w(x) + h,))),
    "shape": ("other shapes or types", lambda c, x, h: (h, torch.cat((c.w(x), h), dim=1))),
    "type": ("other shapes or types", lambda c, x, h: (h, (c.w(x) + h).double())),
    "no input": ("does not read its input", lambda c, x, h: (c.u(h), torch.tanh(c.u(h)))),
}


def written(step: Any) -> Cell:
    class Written(Refused):
        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            output, after = step(self, x, h)
            return output, after

    return Written(5, 6)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_gives_its_reason(name: str) -> None:
    reason, step = REFUSED[name]
    found = plan_of(written(step))
    assert isinstance(found, str)
    assert reason in found


IN_PLAIN_TORCH = {
    "do not know the operation native_layer_norm": lambda c, x, h: functional.layer_norm(c.w(x) + h, (6,)),
    "do not know the operation cumsum": lambda c, x, h: torch.cumsum(c.w(x) + h, dim=-1),
    "every other column": lambda c, x, h: torch.cat((h[:, ::2], c.w(x)[:, ::2]), dim=1),
    "it takes every other column of a state, where kernels": lambda c, x, h: torch.stack(
        (h.view(-1, 3, 2)[..., 0], c.w(x)[:, :3]), dim=-1
    ).flatten(1),
    "spreads one column": lambda c, x, h: torch.tanh(c.w(x) * h[:, 2:3]),
    "a matrix is added to a product": lambda c, x, h: torch.tanh(c.w(x) + torch.addmm(h, h, c.u.weight)),
}


@pytest.mark.parametrize("reason", IN_PLAIN_TORCH)
def test_what_no_kernel_knows_is_named(reason: str) -> None:
    found = plan_of(written(lambda c, x, h: (IN_PLAIN_TORCH[reason](c, x, h),) * 2))
    assert isinstance(found, Plan)
    assert found.kernels is None
    assert reason in found.refusal


FOR_THE_OUTPUT = {
    "layer norm": lambda c, h: functional.layer_norm(h, (6,), c.u.bias),
    "softmax": lambda c, h: torch.softmax(h, dim=-1),
    "share": lambda c, h: h / h.exp().sum(-1, keepdim=True),
    "length": lambda c, h: h / (1 + h.norm(dim=-1, keepdim=True)),
    "largest": lambda c, h: h - h.amax(-1, keepdim=True) - h.logsumexp(-1, keepdim=True),
    "gelu": lambda c, h: functional.gelu(h) * h,
    "root mean square": lambda c, h: functional.rms_norm(h, (6,), c.u.bias),
    "groups": lambda c, h: torch.softmax(h.view(-1, 2, 3), dim=-1).flatten(1),
}


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("name", FOR_THE_OUTPUT)
def test_what_only_the_output_needs_may_be_more_than_kernels_know(name: str, product: bool) -> None:
    """It is computed once, behind the loop, and the state stays linear where it was."""

    def step(c: Refused, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(c.w(x) + c.u(h)) if product else torch.sigmoid(c.w(x)) * h + c.w(x)
        return FOR_THE_OUTPUT[name](c, h), h

    cell = written(step)
    found = plan_of(cell)
    assert isinstance(found, Plan)
    assert found.kernels is not None
    assert found.split.after is not None
    assert (found.scan is None) == product
    assert_equal_to_the_reference(cell)


def assert_equal_to_the_reference(cell: Cell) -> None:
    results = []
    for backend in ("engine", "reference"):
        x = torch.linspace(-1, 1, 60).view(3, 4, 5).requires_grad_()
        output, _ = RNN(cell, 5, 6, backend=backend)(x, torch.tensor([4, 2, 0]))  # type: ignore[arg-type]
        cell.zero_grad()
        (output * torch.arange(72).view_as(output).sin()).sum().backward()
        results.append([output, x.grad, *(weight.grad for weight in cell.parameters() if weight.grad is not None)])
    assert_close(*results, rtol=1e-4, atol=1e-5)


def test_a_change_in_place_of_what_the_step_has_made_is_a_new_value() -> None:
    def step(c: Refused, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        mine = c.w(x)
        mine += 0.5 * h
        mine.mul_(0.5).add_(x[:, :1])
        return mine, mine

    cell = written(step)
    found = plan_of(cell)
    assert isinstance(found, Plan)
    assert found.scan is not None
    assert_equal_to_the_reference(cell)


SPREAD = {
    "a gate of one column": lambda c, x, h: torch.sigmoid(c.w(x)[:, :1]) * h + c.w(x),
    "a mean": lambda c, x, h: torch.lerp(c.w(x), h, x.mean(-1, keepdim=True)),
    "a condition": lambda c, x, h: torch.where(x[:, :1] > 0, h, 0.5 * h) + c.w(x),
    "a gate of each head": lambda c, x, h: (h.view(-1, 2, 3) * c.w(x)[:, :2, None].sigmoid()).flatten(1) + c.w(x),
}


@pytest.mark.parametrize("name", SPREAD)
def test_what_comes_from_the_input_is_spread_before_the_loop(name: str) -> None:
    cell = written(lambda c, x, h: (SPREAD[name](c, x, h),) * 2)
    found = plan_of(cell)
    assert isinstance(found, Plan)
    assert found.scan is not None
    assert_equal_to_the_reference(cell)
    assert_close(RNN(cell, 5, 6, backend="scan")(torch.ones(2, 9, 5))[0], RNN(cell, 5, 6)(torch.ones(2, 9, 5))[0])


def test_explain_tells_the_plan() -> None:
    lines = RNN("gru", 5, 6, bidirectional=True).explain().splitlines()
    assert lines[0] == "layer 1: GRU runs on the CPU, in C compiled for this machine, both directions side by side"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "before the loop",
        "stage 1 of each step",
        "stage 2 of each step",
        "backward",
        "kept for backward",
    ]
    assert "18 columns from the input" in lines[1]
    assert "product 6 x 12" in lines[2]
    assert "product 6 x 6" in lines[3]
    assert "after the loop: the output" in RNN(Separate, 5, 6).explain()
    assert "stage 1 of each step: 4 products 6 x 6, then" in RNN("s_lstm", 5, 6).explain()


def test_equal_cells_share_one_source() -> None:
    """So that a model of many layers is compiled once: sizes are arguments, not text."""
    texts = set()
    for sizes in ((5, 6), (7, 9), (3, 40)):
        made = plan("lstm", *sizes).kernels
        assert made is not None
        texts.add(CSource(made.program, made.adjoint, made.layout, made.biased).text)
    assert len(texts) == 1


def test_the_trace_does_not_touch_the_cell() -> None:
    """Neither its weights, nor their gradients, nor the state of the random numbers."""
    cell = build_cell("lstm", 5, 6)
    before = {name: weight.clone() for name, weight in cell.state_dict().items()}
    drawn = torch.get_rng_state()
    plan_of(cell)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert_close(cell.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in cell.parameters())


def test_a_cell_that_is_first_seen_in_inference_mode_has_a_plan() -> None:
    """There torch does not take operations apart; a loaded model must not run more slowly than a trained one."""

    class Fresh(CELLS["elman"]):  # type: ignore[misc]
        pass

    with torch.inference_mode():
        assert isinstance(plan_of(Fresh(4, 5)), Plan)


def test_explain_prints_the_last_pass_of_this_network_alone() -> None:
    first, second = RNN("min_gru", 5, 6), RNN("min_gru", 5, 6, layers=2)
    first(torch.randn(1, 7, 5))
    assert "last pass: 1 row of 7 steps ran as a loop" in first.explain()
    assert "last pass" not in second.explain()
    torch.compile(second, backend="aot_eager")(torch.randn(3, 4, 5))
    torch.compiler.reset()  # which counts how often it has compiled the same code
    assert "last pass: 3 rows of 4 steps ran as a loop" in second.explain()
    assert "last pass: 1 row of 7 steps ran as a loop" in first.explain()
