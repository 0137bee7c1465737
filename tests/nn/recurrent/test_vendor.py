"""The vendor kernels against the plain loop, which is their twin."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import RNN, State, map_state
from weft.nn.recurrent import LSTM, Elman

VENDOR = ["elman", "lstm", "gru_reset_after"]


def relu(input_size: int, hidden_size: int) -> Elman:
    return Elman(input_size, hidden_size, activation="relu")


def twins(cell: Any, **settings: Any) -> tuple[RNN, RNN]:
    torch.manual_seed(7)
    fast, plain = (RNN(cell, 5, 6, backend=backend, **settings) for backend in ("vendor", "reference"))
    with torch.no_grad():
        for parameter in fast.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    plain.load_state_dict(fast.state_dict())
    return fast, plain


def results(rnn: RNN, x: Tensor, lengths: Tensor | None, state: State) -> list[Tensor]:
    """Outputs, final states, and the gradients of a loss over all of them."""
    found: list[Tensor] = []
    x = x.clone().requires_grad_()
    output, final = rnn(x, lengths, state)
    map_state(lambda tensor: found.append(tensor) or tensor, (output, final))
    rnn.zero_grad()
    sum((part * torch.arange(1.0, part.numel() + 1).view_as(part).cos()).sum() for part in found).backward()
    return [*found, x.grad, *(parameter.grad for parameter in rnn.parameters())]


@pytest.mark.parametrize("lengths", [None, [6, 6, 6, 6], [6, 1, 3, 0], [3, 2, 2, 1]], ids=str)
@pytest.mark.parametrize("merge", [None, "concat", "sum", "mean", "project"])
@pytest.mark.parametrize(
    "cell",
    [*VENDOR, relu, *({"kind": kind, "bias": False} for kind in VENDOR)],
    ids=lambda cell: getattr(cell, "__name__", str(cell)),
)
def test_kernel_equals_loop(cell: Any, merge: str | None, lengths: list[int] | None) -> None:
    settings = {} if merge is None else {"bidirectional": True, "merge": merge}
    fast, plain = twins(cell, layers=2, initial="learned", **settings)
    x = torch.randn(4, 6, 5)
    given = None if lengths is None else torch.tensor(lengths)
    assert_close(results(fast, x, given, None), results(plain, x, given, None), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", VENDOR)
def test_kernel_equals_loop_from_a_given_state(cell: str) -> None:
    fast, plain = twins(cell, layers=2)
    x, lengths = torch.randn(4, 6, 5), torch.tensor([6, 1, 3, 0])
    state = map_state(torch.randn_like, fast.initial_state(4, x))
    assert_close(results(fast, x, lengths, state), results(plain, x, lengths, state), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cell", VENDOR)
def test_kernel_equals_loop_in_double_precision(cell: str) -> None:
    fast, plain = (rnn.double() for rnn in twins(cell, bidirectional=True))
    x, lengths = torch.randn(4, 6, 5, dtype=torch.float64), torch.tensor([6, 1, 3, 0])
    assert_close(results(fast, x, lengths, None), results(plain, x, lengths, None), rtol=1e-12, atol=1e-12)


def test_an_lstm_holds_its_cell_state_over_any_padding() -> None:
    """Exactly, also when the gates would rather forget and the padding is long."""
    rnn = RNN(lambda inputs, hidden: LSTM(inputs, hidden, forget_bias=-50.0), 5, 6, backend="vendor")
    state = map_state(torch.randn_like, rnn.initial_state(3, torch.empty(0)))
    _, ((h, c),) = rnn(torch.randn(3, 300, 5), torch.tensor([0, 0, 1]), state)
    assert torch.equal(c[:2], state[0].c[:2])
    assert torch.equal(h[:2], state[0].h[:2])
    assert not torch.isclose(c[2], state[0].c[2]).any()


@pytest.mark.parametrize("cell", VENDOR)
def test_inference_equals_training(cell: str) -> None:
    rnn = RNN(cell, 5, 6, backend="vendor")
    x = torch.randn(2, 3, 5)
    with torch.inference_mode():
        quiet = rnn(x)[0]
    assert_close(quiet, rnn(x)[0])


@pytest.mark.parametrize("cell", VENDOR)
def test_autocast_and_small_floats_run(cell: str) -> None:
    rnn, x, lengths = RNN(cell, 5, 6, backend="vendor"), torch.randn(2, 3, 5), torch.tensor([3, 2])
    expected, _ = rnn(x, lengths)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = rnn(x, lengths)
    output.float().sum().backward()
    assert_close(output.float(), expected, rtol=0.05, atol=0.05)
    automatic = RNN(rnn.layers[0].cells[0], 5, 6).bfloat16()
    assert "torch's own kernel" not in automatic.explain(), "it may refuse bfloat16 on a CPU"
    small, _ = automatic(x.bfloat16(), lengths)
    assert_close(small.float(), expected, rtol=0.05, atol=0.05)


def test_explain_says_what_runs_and_why() -> None:
    vendor = RNN("lstm", 5, 6, layers=2, backend="vendor").explain()
    assert vendor == "\n".join(
        f"layer {number}: LSTM runs on torch's own kernel, all steps in one call (as asked)" for number in (1, 2)
    )
    reference = RNN("lstm", 5, 6, backend="reference").explain()
    assert reference == "layer 1: LSTM runs step by step, the cell as it is written (as asked)"
    lines = RNN("lstm", 5, 6).explain().splitlines()
    assert lines[0] == "layer 1: LSTM runs on the CPU, in C compiled for this machine"
    assert all(line.startswith("  ") for line in lines[1:])


def test_double_precision_is_for_the_kernel_where_there_is_one() -> None:
    explained = RNN("lstm", 5, 6).double().explain()
    assert "runs on torch's own kernel" in explained
    assert "compute in float32, not float64" in explained
    assert "runs in plain torch" in RNN("gru", 5, 6).double().explain()


def test_a_subclass_of_a_cell_is_not_taken_for_it() -> None:
    class Doubled(LSTM):
        def step(self, x: Tensor, state: Any) -> Any:
            output, state = super().step(x, state)
            return 2 * output, state

    with pytest.raises(ConfigError, match="no kernel for Doubled"):
        RNN(Doubled, 5, 6, backend="vendor")
    rnn = RNN(Doubled, 5, 6).double()
    assert "runs in plain torch" in rnn.explain()
    plain = RNN("lstm", 5, 6).double()
    plain.load_state_dict(rnn.state_dict())
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    assert_close(rnn(x)[0], 2 * plain(x)[0])


@pytest.mark.parametrize(
    ("cell", "option"),
    [
        ({"kind": "gru_reset_after", "update": "state"}, "update = state"),
        ({"kind": "lstm", "candidate": "sigmoid"}, "candidate = sigmoid"),
        ({"kind": "elman", "feedback": True}, "feedback = True"),
    ],
    ids=["update", "candidate", "feedback"],
)
def test_an_option_that_torch_does_not_have(cell: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=f'backend: "vendor" cannot run: torch has no kernel for {option}'):
        RNN(cell, 5, 6, backend="vendor")
    assert "torch's own kernel" not in RNN(cell, 5, 6).double().explain()


def test_asking_for_a_kernel_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r'backend: "vendor" cannot run: torch has no kernel for GRU \(use "auto"\)'):
        RNN("gru", 5, 6, backend="vendor")
    with pytest.raises(ConfigError, match="no kernel for the activation sigmoid"):
        RNN(Elman(5, 6, activation="sigmoid"), 5, 6, backend="vendor")
