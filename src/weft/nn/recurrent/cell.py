"""The contract of a recurrent cell: one step, written as its equations.

A cell knows nothing of time, length or device; `RNN` runs it. To write your own, subclass `Cell`, make the layers
in `__init__` and fill in `step`:

    class Leaky(Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.from_input = nn.Linear(input_size, hidden_size)

        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = 0.9 * h + torch.tanh(self.from_input(x))
            return h, h

Further parameters of `__init__` are the cell's options; a config file may set them: cell = { kind = …, leak = 0.9 }.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, did_you_mean
from weft.nn.state import State

FORGET_BIAS: Final = 1.0
"""The default start of a forget gate's bias."""


class Cell(nn.Module):
    """One step of a recurrence: `step(x (B, I), state) -> (output (B, O), state)`.

    The state is one tensor (B, H) unless `state_type` names a NamedTuple class; then each of its fields is one.
    A cell whose outputs are not of the hidden size sets `output_size`.
    """

    state_type: ClassVar[type | None] = None
    bias: bool
    """Of weft's cells: whether sums have biases."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.output_size = hidden_size

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, I), state -> output (B, O), next state."""
        raise NotImplementedError(f"{type(self).__name__} must define step(x, state) -> (output, state)")

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The step, so that hooks and wrappers of torch work on a cell."""
        return self.step(x, state)

    def zero_state(self, batch: int, like: Tensor) -> State:
        """The state before the first step, with the dtype and device of `like`."""
        if self.state_type is None:
            return like.new_zeros(batch, self.hidden_size)
        fields: tuple[str, ...] = self.state_type._fields  # type: ignore[attr-defined]
        return self.state_type(*(like.new_zeros(batch, self.hidden_size) for _ in fields))

    def first_state(self, given: State) -> State:
        """The first state made of given numbers: those of a bridge, or of a learned or random first state.

        A cell whose equations hold for some states only returns one of them; a state that it can reach stays the same.
        """
        return given


@torch.no_grad()
def start_from_input(linear: nn.Linear, gates: int) -> None:
    """Xavier start for each gate by itself, zero bias: stacked gates must not count as one wide layer."""
    for block in linear.weight.chunk(gates):
        nn.init.xavier_uniform_(block)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


@torch.no_grad()
def start_from_state(linear: nn.Linear, gates: int) -> None:
    """Orthogonal start for each gate by itself: it neither shrinks nor grows what passes from step to step."""
    for block in linear.weight.chunk(gates):
        nn.init.orthogonal_(block)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def settle_biases(cell: Cell, *, bias: bool, forget_bias: float = FORGET_BIAS) -> None:
    """Remove all biases of a new cell, unless it is to have them. `forget_bias` is an option of the cell that would
    start one of them."""
    cell.bias = bias
    if bias:
        return
    if forget_bias != FORGET_BIAS:
        where, cure = f"cell.forget_bias = {forget_bias:g}", "remove it, or set bias = true"
        raise ConfigError("there is no bias to start there", where=where, cure=cure)
    for module in cell.modules():
        for name in [name for name, _ in module.named_parameters(recurse=False) if name.endswith("bias")]:
            module.register_parameter(name, None)


def check_option(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a cell's option that is none of its choices; a cell built by a config file was checked before."""
    choices = list(choices)
    if value not in choices:
        where, what = f'cell.{name} = "{value}"', f"is not one of {', '.join(choices)}"
        raise ConfigError(what, where=where, cure=did_you_mean(str(value), choices))
