"""Recurrent networks of any cell: layers, directions, skip connections, dropout.

    x (B, T, I) ── layer 1 ── dropout ── layer 2 ── … ── layer L ──> output (B, T, D)

B batch, T time, I input, D output. Rows may have different lengths: each gives what it would give alone, every output
past its end is zero, and its final state is the one after its own last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, DataError, did_you_mean
from weft.nn.recurrent import torch_weights
from weft.nn.recurrent.attending import AttendingCell, Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.cells import CellChoice, build_cell
from weft.nn.recurrent.given_state import fit_state
from weft.nn.recurrent.layer import Backend, Layer, Merge
from weft.nn.recurrent.lengths import check_input, check_lengths, zero_past_end
from weft.nn.recurrent.segments import Segments, cut_at_resets
from weft.nn.state import State

Skip = Literal["none", "residual", "dense"]
Initial = Literal["zeros", "learned", "random"]


class RNN(nn.Module):
    """A stack of recurrent layers.

    hidden_size is one number, or one for each layer. skip: "residual" adds a layer's input to its output where the
    sizes agree; "dense" gives each layer the input and all outputs below it. dropout falls on each layer's output but
    the last's. initial: the first state is the cell's own, zero in most cells; learned; or drawn from
    N(0, initial_std²) around the cell's own for each row in training. The state is a tuple with the cell's state for
    each layer, and with a pair of them (forward, backward) for each layer when bidirectional.
    """

    def __init__(
        self,
        cell: CellChoice,
        input_size: int,
        hidden_size: int | Sequence[int],
        *,
        layers: int = 1,
        bidirectional: bool = False,
        merge: Merge = "concat",
        skip: Skip = "none",
        dropout: float = 0.0,
        initial: Initial = "zeros",
        initial_std: float = 1.0,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        _check_choices(merge=(merge, Merge), skip=(skip, Skip), initial=(initial, Initial), backend=(backend, Backend))
        sizes = _sizes(hidden_size, layers)
        if isinstance(cell, Cell) and (bidirectional or len(sizes) > 1):
            cure = f"pass the class {type(cell).__name__}"
            raise ConfigError("a finished cell makes one layer in one direction", where="cell", cure=cure)
        self.bidirectional, self.skip = bidirectional, skip
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList()
        width = input_size
        for hidden in sizes:
            cells = [build_cell(cell, width, hidden) for _ in range(2 if bidirectional else 1)]
            std = initial_std if initial == "random" else 0.0
            layer = Layer(cells, merge=merge, learned=initial == "learned", backend=backend, initial_std=std)
            self.layers.append(layer)
            width = width + layer.output_size if skip == "dense" else layer.output_size
        self.input_size, self.output_size = input_size, layer.output_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """The state before the first step, with the dtype and device of `like`."""
        return tuple(layer.initial_state(batch, like) for layer in self.stack())

    def first_state(self, given: State) -> State:
        """The first state made of given numbers; see `Cell.first_state`."""
        return tuple(layer.first_state(part) for layer, part in zip(self.stack(), given, strict=True))

    def forward(
        self,
        x: Tensor,
        lengths: Tensor | None = None,
        state: State = None,
        *,
        resets: Tensor | None = None,
        source: Source | None = None,
    ) -> tuple[Tensor, State]:
        """x (B, T, I), lengths (B,), resets (B, T) -> output (B, T, D), state after each row's last step.

        Without lengths every row is T long; lengths on the CPU are checked and save work, also for x on a GPU. Where
        resets is True, the state before that step is the network's initial one again, as if another row began there;
        the backward direction ends there and begins anew before it. Resets should be on the CPU too. `source` is what
        cells attend to that do, the same in every layer.
        """
        check_input(x, self.input_size, "(B, T, I)")
        source = self._check_source(source, x.size(0))
        given, lengths = lengths, check_lengths(x, lengths)
        segments = None if resets is None or x.numel() == 0 else cut_at_resets(x, given, resets)
        x, starts = self._begin(x, lengths, state, segments)
        return self._climb(x, starts, lambda layer, below, start: layer(below, lengths, start, segments, source))

    def last(
        self, x: Tensor, lengths: Tensor | None = None, state: State = None, *, source: Source | None = None
    ) -> Tensor:
        """x (B, T, I), lengths (B,) -> (B, D), the output with which each row ends; zeros for a row without steps.

        A bidirectional network ends at both ends of a row, the backward direction at the first step: no step of the
        output has seen the whole row in both directions, this has.
        """
        check_input(x, self.input_size, "(B, T, I)")
        source = self._check_source(source, x.size(0))
        lengths = check_lengths(x, lengths)
        x, starts = self._begin(x, lengths, state)
        if x.size(1) == 0:
            output, _ = self._climb(x, starts, lambda layer, below, start: layer(below, lengths, start))
            return output.sum(1)
        last = x[:, 0]

        def run(layer: Layer, below: Tensor, start: State) -> tuple[Tensor, State]:
            nonlocal last
            outputs, final = layer.directions(below, lengths, start, source=source)
            last = layer.join_ends(outputs, lengths)
            if self._adds(below.size(-1), layer):
                last = last + layer.pass_ends(below, lengths)
            return layer.join(outputs, lengths), final

        self._climb(x, starts, run)
        return last

    def _begin(
        self, x: Tensor, lengths: Tensor | None, state: State, segments: Segments | None = None
    ) -> tuple[Tensor, State]:
        """The input and the states to start from, of each row or else of each segment, checked."""
        if self.skip != "none":  # what goes past a layer must be zero past the end as well
            x = zero_past_end(x, lengths)
        if state is not None:
            state = self._fit(state, x)
        if segments is not None:
            given = [None] * len(self.layers) if state is None else state
            layers = zip(self.stack(), given, strict=True)
            return x, tuple(layer.start_segments(segments, mine, x) for layer, mine in layers)
        return x, self.initial_state(x.size(0), x) if state is None else state

    def _fit(self, state: State, x: Tensor) -> State:
        """The state, if it is one of this network for the rows of x, else a DataError."""
        return fit_state(state, tuple(layer.state_form for layer in self.stack()), x, x.size(0))

    def _adds(self, width: int, layer: Layer) -> bool:
        """Whether an input of that many features is added to the output of the layer."""
        return self.skip == "residual" and width == layer.output_size

    def step(
        self, x: Tensor, state: State, *, source: Source | None = None, masks: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, State]:
        """x (B, I), state -> output (B, D), next state: the numbers of `forward`, one time step at a time. `masks` are
        factors (B, n) of the outputs of all layers but the last, in the place of dropout."""
        if self.bidirectional:
            raise ConfigError("a bidirectional network cannot run step by step", where="bidirectional")
        check_input(x, self.input_size, "(B, I)")
        starts = self._fit(state, x)
        return self._climb(x, starts, lambda layer, below, start: layer.step(below, start, source), masks=masks)

    def dropout_masks(self, batch: int, time: int, like: Tensor) -> list[Tensor]:
        """The factors (B, T, n) that dropout gives the outputs of all layers but the last; none in evaluation."""
        if not self.drops:
            return []
        return [self.dropout(like.new_ones(batch, time, layer.output_size)) for layer in self.stack()[:-1]]

    @property
    def drops(self) -> bool:
        """Whether dropout falls between layers now."""
        return self.training and self.dropout.p > 0 and len(self.layers) > 1

    def _check_source(self, source: Source | None, batch: int) -> Source | None:
        """The source, with lengths where its keys are. It is given if the cells attend, and only then; it has a row for
        each of the batch."""
        cell = self.stack()[0].cells[0]
        if isinstance(cell, AttendingCell) == (source is None):
            name = type(cell).__name__
            what = f"{name} attends, but there is no source" if source is None else f"{name} attends to no source"
            raise DataError(what, where="source", cure="give one to cells that attend, and to no others")
        if source is None or not isinstance(cell, AttendingCell):
            return None
        keys, values = (tuple(part.shape) for part in source[:2])
        wanted = [(batch, keys[1], size) for size in (cell.key_size, cell.value_size)]
        if [keys, values] != wanted or source.lengths.shape != (batch,):
            what = f"keys are {keys}, values {values}, lengths {tuple(source.lengths.shape)}"
            cure = f"{wanted[0]}, {wanted[1]} and {(batch,)}, for a batch of {batch} rows"
            raise DataError(what, where="source", cure=cure)
        checked = not source.lengths.is_cuda and not torch.compiler.is_compiling()
        if checked and bool(((source.lengths < 0) | (source.lengths > keys[1])).any()):
            what = f"lengths {source.lengths.tolist()} do not fit a source of {keys[1]} positions"
            raise DataError(what, where="source")
        return source._replace(lengths=source.lengths.to(source.keys.device))

    def explain(self) -> str:
        """The plan of each layer: what is hoisted out of the loop, its stages, the backend and why."""
        return "\n".join(f"layer {number}: {layer.explain()}" for number, layer in enumerate(self.stack(), 1))

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """A network with the weights of an nn.LSTM, nn.GRU or nn.RNN, in its type and on its device.

        It is batch first, whatever the module was.
        """
        weight = next(module.parameters())
        with torch.device("meta"):  # nothing is drawn at random that would be overwritten at once
            rnn = cls(**torch_weights.settings_of(module))
        rnn = rnn.to(weight.dtype).to_empty(device=weight.device)
        torch_weights.copy_from(module, rnn)
        return rnn.train(module.training)

    def to_torch(self) -> nn.RNNBase:
        """An nn.LSTM, nn.GRU or nn.RNN, batch first, with these weights; a ConfigError where torch has none."""
        return torch_weights.to_torch(self)

    def _climb(
        self,
        x: Tensor,
        starts: State,
        run: Callable[[Layer, Tensor, State], tuple[Tensor, State]],
        *,
        masks: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor, State]:
        """Up the stack, with skips and dropout; x is (B, T, I) or, for one step, (B, I)."""
        stack, finals = self.stack(), []
        for number, (layer, start) in enumerate(zip(stack, starts, strict=True)):
            output, final = run(layer, x, start)
            finals.append(final)
            if layer is not stack[-1]:
                output = self.dropout(output) if masks is None else output * masks[number] if masks else output
            if self._adds(x.size(-1), layer):
                output = output + x
            x = torch.cat((x, output), dim=-1) if self.skip == "dense" else output
        return output, tuple(finals)

    def stack(self) -> list[Layer]:
        """Its layers from the input up."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]


def _sizes(hidden_size: int | Sequence[int], layers: int) -> list[int]:
    """One hidden size per layer; a list may leave `layers` at its default."""
    if layers < 1:
        raise ConfigError(f"{layers} layers make no network", where="layers", cure="at least 1")
    if isinstance(hidden_size, int):
        hidden_size = [hidden_size] * layers
    if not hidden_size or layers not in (1, len(hidden_size)):
        cure = "one size for each layer"
        raise ConfigError(f"{list(hidden_size)} are not the sizes of {layers} layers", where="hidden_size", cure=cure)
    if min(hidden_size) < 1:
        raise ConfigError(f"a layer has {min(hidden_size)} units", where="hidden_size", cure="at least 1")
    return list(hidden_size)


def _check_choices(**settings: tuple[str, object]) -> None:
    for name, (value, literal) in settings.items():
        choices = get_args(literal)
        if value not in choices:
            raise ConfigError(f'"{value}" is not a choice', where=name, cure=did_you_mean(value, choices))
