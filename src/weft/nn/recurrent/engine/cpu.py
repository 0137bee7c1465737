"""The plan on a CPU: the generated C, compiled for this machine, called with the addresses of the tensors."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.nn.native.compiler import compile_library
from weft.nn.native.threads import parallel
from weft.nn.recurrent.engine.c_source import CSource

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, Steps

MOST_ROWS = 64
"""Rows of a block: enough to use each part of the weights many times, few enough to stay in a core's cache."""


class CPUBackend:
    """The compiled loop of one plan."""

    def __init__(self, plan: Kernels) -> None:
        self.products = len(plan.program.products)
        self.source = CSource(plan.program, plan.adjoint, plan.layout, plan.biased)
        library = compile_library(self.source.text)
        self._forward, self._backward = library.forward, library.backward
        self._sizes = (ctypes.c_long * (len(self.source.sizes) + 1))(*self.source.sizes)

    def forward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None:
        """Fill histories, emitted values, last states and, where there is room for it, what is saved."""
        self._call(self._forward, self.source.forward_slots, tensors, steps, reverse)

    def backward(self, tensors: list[dict[str, Tensor]], steps: Steps, reverse: list[bool]) -> None:
        """Fill the gradients of hoisted values, products, vectors and first states, and the left sides."""
        self._call(self._backward, self.source.backward_slots, tensors, steps, reverse)

    def _call(
        self, function: Any, slots: list[str], tensors: list[dict[str, Tensor]], steps: Steps,
        reverse: list[bool],
    ) -> None:  # fmt: skip
        batch, threads = steps.batch, torch.get_num_threads()
        lengths = torch.full((batch,), steps.time) if steps.lengths is None else steps.lengths.contiguous()
        order = torch.arange(batch) if steps.lengths is None else lengths.argsort(descending=True)
        base = steps.base(lengths.device)
        # Weights are packed from any layout; everything else must be contiguous.
        alive = [
            {
                slot: mine[slot] if slot.startswith("weight") else mine[slot].contiguous()
                for slot in slots
                if slot in mine
            }
            for mine in tensors
        ]
        pointers = [own[slot].data_ptr() if slot in own else 0 for own in alive for slot in slots]
        strides = [stride for own in alive for p in range(self.products) for stride in own[f"weight{p}"].stride()]
        # With two directions a thread may take one of them whole.
        share = max(1, threads // len(tensors))
        blocks = max(1, min(batch, max(share, -(-batch // MOST_ROWS // share) * share)))
        function(
            (ctypes.c_void_p * len(pointers))(*pointers), self._sizes, (ctypes.c_long * (len(strides) + 1))(*strides),
            *(ctypes.c_void_p(table.data_ptr()) for table in (lengths, order, base)), bytes(reverse),
            *(ctypes.c_long(number) for number in (len(tensors), batch, steps.time, blocks, threads)), parallel(),
        )  # fmt: skip
