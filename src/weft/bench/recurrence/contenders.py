"""The contenders of the recurrence benchmark: one layer by weft, by torch.nn and by the plain loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from weft.bench.recurrence.case import DTYPES, Case
from weft.errors import ConfigError
from weft.nn import RNN, Cell, CellClass, choose_cell
from weft.nn.recurrent.engine import is_capturable
from weft.nn.recurrent.layer import Backend, Layer

Pass: TypeAlias = Callable[[], Tensor]
"""One forward and backward pass; returns the gradient of the input (B, T, H)."""


class _OutputAlone(nn.Module):
    """A network without its last state."""

    def __init__(self, rnn: RNN) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.rnn(x)[0]
        return output


class Workload:
    """The recurrent layer of a case, its data, and the contenders that run it; all have the same weights."""

    def __init__(self, case: Case, cells: Mapping[str, CellClass]) -> None:
        self.case, self.device = case, case.device
        batch, time, hidden = case.size
        self._chosen = choose_cell(case.cell, cells)
        self.rnn = self._build("auto")
        self.lengths = case.row_lengths() if case.lengths else None
        shape = (batch, time, hidden)
        self.x = torch.randn(shape, device=self.device, dtype=case.weight_dtype, requires_grad=True)
        self._gradient = torch.randn(batch, time, self.rnn.output_size, device=self.device, dtype=DTYPES[case.dtype])

    def weft(self) -> Pass:
        return self._passes(self.rnn, lambda x: self.rnn(x, self.lengths)[0])

    def graph(self) -> Callable[[], None]:
        """weft's pass as one CUDA graph; ConfigError where it cannot be captured."""
        self._check_capturable()
        run, stream = self.weft(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # the first passes compile and choose
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def graphed(self) -> Pass:
        """weft's forward and backward pass as a CUDA graph each, which Python calls, as in a training loop of your own
        after `torch.cuda.make_graphed_callables`; ConfigError where they cannot be captured."""
        self._check_capturable()
        if self.lengths is not None or self.case.autocast:
            raise ConfigError("is measured without lengths and autocast", where="--contender")
        layer = _OutputAlone(self._build("auto"))
        layer.rnn.load_state_dict(self.rnn.state_dict())
        # It captures on another stream than its callers', and torch warns that sums of .grad would wait for each other.
        if (warns := getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)) is not None:
            warns(False)
        like = torch.randn_like(self.x, requires_grad=True)
        graphed: Any = torch.cuda.make_graphed_callables(layer, (like,))
        return self._passes(layer, graphed)

    def _check_capturable(self) -> None:
        if not is_capturable(self._layer().choose(self.device.type)):
            raise ConfigError("its loop over time is CUDA graphs or a persistent kernel", where="--contender")

    def eager(self) -> Pass:
        """The cell's step in a loop."""
        plain = self._build("reference")
        plain.load_state_dict(self.rnn.state_dict())
        return self._passes(plain, lambda x: plain(x, self.lengths)[0])

    def torch(self) -> Pass:
        """nn.LSTM, nn.GRU or nn.RNN (cuDNN, oneDNN), packed where rows differ; ConfigError if torch lacks the cell."""
        module = self.rnn.to_torch()
        module.flatten_parameters()
        return self._passes(module, self._torch_forward(module))

    def torch_half(self) -> Pass:
        """`torch` with weights and data in fp16, for which cuDNN has its fastest kernels."""
        module = self.rnn.to_torch().half()
        module.flatten_parameters()
        x, gradient = self.x.detach().half().requires_grad_(), self._gradient.half()
        forward = self._torch_forward(module)
        wanted = [x, *module.parameters()]
        return lambda: torch.autograd.grad(forward(x), wanted, gradient)[0]

    def _torch_forward(self, module: nn.RNNBase) -> Callable[[Tensor], Tensor]:
        if self.lengths is None:
            return lambda x: module(x)[0]

        def packed(x: Tensor) -> Tensor:
            assert self.lengths is not None
            rows = pack_padded_sequence(x, self.lengths, batch_first=True, enforce_sorted=False)
            output, _ = module(rows)
            return pad_packed_sequence(output, batch_first=True, total_length=x.size(1))[0]

        return packed

    def cell(self) -> Cell:
        """The cell of the first direction."""
        return next(module for module in self.rnn.modules() if isinstance(module, Cell))

    def backend(self) -> tuple[str, str]:
        """The backend that weft chooses for this device, and why it is not a faster one."""
        choice = self._layer().choose(self.device.type)
        return choice.backend, choice.reason

    def _layer(self) -> Layer:
        return self.rnn.stack()[0]

    def _build(self, backend: Backend) -> RNN:
        hidden = self.case.size.hidden
        rnn = RNN(self._chosen, hidden, hidden, bidirectional=self.case.bidirectional, backend=backend)
        return rnn.to(device=self.device, dtype=self.case.weight_dtype)

    def _passes(self, module: nn.Module, forward: Callable[[Tensor], Tensor]) -> Pass:
        """Compute the gradients of the input and of every weight, without accumulating them."""
        wanted = [self.x, *module.parameters()]
        dtype = DTYPES[self.case.dtype]

        def run() -> Tensor:
            with torch.autocast(self.device.type, dtype=dtype, enabled=self.case.autocast):
                output = forward(self.x)
            return torch.autograd.grad(output, wanted, self._gradient.to(output.dtype), allow_unused=True)[0]

        return run
