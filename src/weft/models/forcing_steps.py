"""The steps of scheduled sampling on fixed buffers, so that they can be recorded and replayed.

A chunk of steps reads the true tokens, which of them are kept, the last token and the state, and writes what the next
chunk reads.          B batch, T target length, R rows of the buffers ≥ B
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from weft.models.embedding import Output
from weft.models.memory import Decoder
from weft.nn import State, select_rows
from weft.nn.fingerprint import fingerprint
from weft.nn.slots import own, put, write, written


class Unrecordable(Exception):
    """The steps of a decoder cannot be recorded; the message says why."""


class Writer(NamedTuple):
    """What a step runs."""

    decoder: Decoder
    output: Output


class Buffers:
    """Fixed buffers for R rows of up to so many positions, and chunks of steps that read and write nothing else.

    `memory` and its rows are those of a batch, from which the buffers of the state get their shapes.
    """

    def __init__(self, writer: Writer, memory: Any, rows: Tensor, *, capacity: int) -> None:
        device = rows.device
        chosen, every = select_rows(memory, rows), torch.arange(rows.numel(), device=device)
        self.capacity, self.rows = capacity, every
        self.true = torch.zeros(capacity, rows.numel(), dtype=torch.long, device=device)
        self.kept = torch.zeros(capacity, rows.numel(), dtype=torch.bool, device=device)
        self.mixed = torch.zeros_like(self.true)
        self.token, self.position = torch.zeros_like(every), every.new_zeros(1)
        self.first: State = own(writer.decoder.reserve(chosen, every, width=1, capacity=capacity))
        """The state before the first step."""
        self.state: State = None
        """The state after a chunk. It is another than `first` where a step changes the types of tensors, as it does
        under autocast."""

    def try_steps(self, writer: Writer) -> None:
        """Make the buffers for the state after a step; raise an Unrecordable where steps cannot be recorded."""
        decoder, states = writer.decoder, [self.first]
        with HostReads():  # type: ignore[no-untyped-call]
            for _ in range(2):
                before = fingerprint(decoder)
                hidden, state, _ = decoder.step_without_attention(self.token, states[-1])
                writer.output(hidden).argmax(-1)
                states.append(state)
        if fingerprint(decoder) != before:
            raise Unrecordable("a step changes attributes of the decoder, which a replay would not do")
        shapes = [[tensor.shape for tensor in written(state)] for state in states]
        types = [[tensor.dtype for tensor in written(state)] for state in states]
        if shapes[1:] != shapes[:-1]:
            raise Unrecordable("its state changes its shape from step to step")
        if types[1] != types[2]:
            raise Unrecordable("its state changes its type from step to step")
        self.state = self.first if types[0] == types[1] else own(states[1])
        for first in {False, self.first is not self.state}:  # kernels are not compiled or loaded in a capture
            self.advance(writer, 2, first=first)

    def load(self, tokens: Tensor, kept: Tensor, state: State) -> None:
        """Begin with the first tokens of a batch (B, T) and its first state."""
        batch, length = tokens.shape
        self.true[:length, :batch] = tokens.t()
        self.kept[:length, :batch] = kept.t()
        self.token[:batch] = tokens[:, 0]
        self.position.zero_()
        put(self.first, self.rows[:batch], state, 1)

    def advance(self, writer: Writer, count: int, *, first: bool) -> None:
        """So many steps after one another, the first of the text or later ones."""
        places = self.position + torch.arange(1, count + 1, device=self.position.device)
        true, kept = self.true.index_select(0, places), self.kept.index_select(0, places)
        token, state, tokens = self.token, self.first if first else self.state, []
        for number in range(count):
            hidden, state, _ = writer.decoder.step_without_attention(token, state)
            token = torch.where(kept[number], true[number], writer.output(hidden).argmax(-1))
            tokens.append(token)
        self.mixed.index_copy_(0, places, torch.stack(tokens))
        self.token.copy_(token)
        self.position.add_(count)
        write(self.state, state)

    def mixture(self, tokens: Tensor) -> Tensor:
        """The mixture of the batch (B, T) that was loaded."""
        batch, length = tokens.shape
        return torch.cat([tokens[:, :1], self.mixed[1:length, :batch].t()], dim=1)


class HostReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises an Unrecordable where the host reads a value of a tensor in the block, such as to branch on it: a capture
    would fail there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _reads(func, args, kwargs):
            raise Unrecordable(f"its step reads values of tensors on the host ({func.name()})")
        return func(*args, **kwargs)


def _reads(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operation has a result, or a shape of it, that depends on values which the host has to read."""
    if func is torch.ops.aten.index.Tensor:
        return any(part is not None and part.dtype in (torch.bool, torch.uint8) for part in args[1])
    if func is torch.ops.aten._to_copy.default:
        to = kwargs.get("device")
        return to is not None and to.type == "cpu" != args[0].device.type
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
