"""A recurrent network inside torch's own machinery: compiled, in mixed precision, checkpointed, called functionally."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from weft.nn import RNN, CellChoice
from weft.nn.state import leaves_of

TOKENS = torch.randint(0, 11, (4, 5), generator=torch.Generator().manual_seed(3))
LENGTHS = torch.tensor([5, 2, 0, 4])
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
COMPILED = [
    pytest.param("aot_eager", id="aot_eager"),
    pytest.param("inductor", id="inductor", marks=pytest.mark.slow),
]


SIZES = itertools.count(70)


class Tagger(nn.Module):
    """Of a size that no other network has: its plan is then made inside the call that is compiled."""

    def __init__(self, cell: CellChoice, **settings: Any) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(11, 5)
        self.rnn = RNN(cell, 5, next(SIZES), **settings)
        self.output = nn.Linear(self.rnn.output_size, 3)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        hidden, state = self.rnn(self.embedding(tokens), lengths)
        return self.output(hidden), leaves_of(state)


def results(model: nn.Module, call: Any, lengths: Tensor | None) -> list[Tensor]:
    """Logits, last states and gradients of a loss over both."""
    model.zero_grad()
    logits, state = call(TOKENS, lengths)
    (logits.square().sum() + sum(part.sin().sum() for part in state)).backward()
    return [logits, *state, *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize(
    ("name", "lengths"),
    [("lstm", None), ("lstm", LENGTHS), ("Readout", LENGTHS)],
    ids=["lstm-full", "lstm-lengths", "Readout-lengths"],
)
def test_compiled_whole(name: str, lengths: Tensor | None, backend: str, own: Any) -> None:
    """In one graph, at the first call, with the numbers it has when not compiled."""
    model = Tagger(own.get(name, name), layers=2, bidirectional=True)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    found = results(model, compiled, lengths)
    assert_close(found, results(model, model, lengths), **CLOSE)


def test_compiled_for_inference() -> None:
    model = Tagger("gru")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        found, _ = compiled(TOKENS, LENGTHS)
        assert_close(found, model(TOKENS, LENGTHS)[0], **CLOSE)


def test_compiled_for_batches_of_changing_shape() -> None:
    model = Tagger("gru")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, time in ((4, 5), (3, 7), (2, 6)):
        tokens, lengths = torch.randint(0, 11, (batch, time)), torch.arange(batch) + time - batch + 1
        found, expected = (call(tokens, lengths)[0] for call in (compiled, model))
        assert_close(found, expected, **CLOSE)


def test_compiled_and_changed_afterwards() -> None:
    model = Tagger("elman")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    first, _ = compiled(TOKENS)
    model.rnn.layers[0].cells[0].activation = "relu"
    changed, _ = compiled(TOKENS)
    assert_close(changed, model(TOKENS)[0], **CLOSE)
    assert not torch.allclose(changed, first)


def test_compiled_where_only_the_reference_can_run(own: Any) -> None:
    model = Tagger(own["InPlace"])
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = results(model, compiled, LENGTHS)
    assert_close(found, results(model, model, LENGTHS), **CLOSE)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
def test_mixed_precision_keeps_the_recurrence_in_single(case: Any, lengths: Tensor | None, paired: Any) -> None:
    """Under autocast the plan computes in float32 from end to end: a state must not lose bits at every step."""
    pair, x = paired(case.choice, bidirectional=True), torch.randn(4, 5, 5)
    rnn, start = pair.engine, pair.random_state(x)
    expected = pair.measure(rnn, x, lengths, start)
    rnn.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, final = rnn(x, lengths, start)
    pair.loss_of(output, final).backward()
    parts = [output, *leaves_of(final)]
    assert {part.dtype for part in parts} == {torch.float32}
    found = dict(zip(["output", *(f"final {number}" for number in range(len(parts) - 1))], parts, strict=True))
    found |= {name: parameter.grad for name, parameter in rnn.named_parameters()}
    assert_close(found, {name: expected[name] for name in found}, rtol=0, atol=0)


def test_mixed_precision_takes_inputs_and_states_of_either_type(paired: Any) -> None:
    """An autocast layer below gives bfloat16."""
    pair, x = paired("lstm"), torch.randn(4, 5, 5)
    half = x.bfloat16().requires_grad_()
    start = pair.random_state(half)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, final = pair.engine(half, LENGTHS, start)
    assert {part.dtype for part in (output, *leaves_of(final))} == {torch.float32}
    output.sum().backward()
    assert half.grad.dtype == torch.bfloat16
    whole = tuple(type(part)(*(leaf.float() for leaf in part)) for part in start)
    assert_close(output, pair.reference(half.detach().float(), LENGTHS, whole)[0], **CLOSE)


def test_a_network_of_small_floats(paired: Any) -> None:
    """No kernel has them on a CPU; what runs instead has their precision."""
    pair, x = paired("peephole_lstm"), torch.randn(4, 5, 5)
    expected, _ = pair.reference(x, LENGTHS)
    small = pair.engine.bfloat16()
    output, final = small(x.bfloat16(), LENGTHS)
    assert {part.dtype for part in (output, *leaves_of(final))} == {torch.bfloat16}
    assert_close(output.float(), expected, rtol=0.05, atol=0.05)
    assert "not bfloat16" in small.explain()


def test_checkpointed(paired: Any) -> None:
    pair, x = paired("gru", layers=2), torch.randn(4, 5, 5, requires_grad=True)
    expected = pair.measure(pair.reference, x, LENGTHS)
    pair.engine.zero_grad()
    output, final = checkpoint(pair.engine, x, LENGTHS, use_reentrant=False)
    pair.loss_of(output, final).backward()
    found = {name: parameter.grad for name, parameter in pair.engine.named_parameters()}
    assert_close(found, {name: expected[name] for name in found}, **CLOSE)
    assert_close(x.grad, expected["x"], **CLOSE)


def test_called_with_other_weights(paired: Any) -> None:
    pair, x = paired("lstm"), torch.randn(4, 5, 5)
    pair.engine(x)
    weights = {name: -parameter.detach() for name, parameter in pair.engine.named_parameters()}
    found, expected = (
        torch.func.functional_call(rnn, weights, (x, LENGTHS))[0] for rnn in (pair.engine, pair.reference)
    )
    assert_close(found, expected, **CLOSE)
    assert not torch.allclose(found, pair.engine(x, LENGTHS)[0])


def test_a_hook_of_a_parameter_sees_its_whole_gradient_once(paired: Any) -> None:
    pair, x, seen = paired("gru"), torch.randn(4, 5, 5), []
    weight = pair.engine.layers[0].cells[0].from_input.weight
    weight.register_hook(seen.append)
    pair.engine(x)[0].sum().backward()
    pair.reference(x)[0].sum().backward()
    assert len(seen) == 1
    assert_close(seen[0], pair.reference.layers[0].cells[0].from_input.weight.grad, **CLOSE)
