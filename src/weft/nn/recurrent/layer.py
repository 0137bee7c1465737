"""One layer of a recurrent network: a cell, or one cell for each direction, and the way their outputs meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.recurrent import engine, reference, vendor
from weft.nn.recurrent.attending import Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.given_state import StateForm, form_of
from weft.nn.recurrent.lengths import last_of, reverse_rows, zero_past_end
from weft.nn.recurrent.own import check_step
from weft.nn.recurrent.segments import Segments
from weft.nn.state import State, map_state

Backend = Literal["auto", "engine", "loop", "scan", "reference", "vendor"]
Merge = Literal["concat", "sum", "mean", "project"]

Observer = Callable[[Tensor, Tensor | None, State, list[Tensor]], None]
"""Called after a layer ran, with x (B, T, I), lengths, the first state, and the outputs (B, T, O) of each direction."""

RUN: Final = {"reference": reference.run, "vendor": vendor.run}
"""The backends without a plan, which run one direction after the other."""


class Layer(nn.Module):
    """Runs one cell forward or two cells in both directions; the backward one starts at each row's own end."""

    def __init__(
        self, cells: list[Cell], *, merge: Merge, learned: bool, backend: Backend, initial_std: float = 0.0
    ) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.merge, self.backend, self.initial_std = merge, backend, initial_std
        size = cells[0].output_size
        self.input_size = cells[0].input_size
        self.state_form: StateForm = form_of(self.zero_state(1, torch.empty(0)))
        """The form of the states that it takes and returns."""
        self._enroll()
        self.output_size = 2 * size if len(cells) == 2 and merge == "concat" else size
        self.project = nn.Linear(2 * size, size) if len(cells) == 2 and merge == "project" else None
        self.initial = nn.ModuleList([LearnedState(cell) for cell in cells]) if learned else None
        self.observers: list[Observer] = []
        if backend == "vendor" and (reason := vendor.missing(cells[0])):
            raise ConfigError(f'"vendor" cannot run: {reason}', where="backend", cure='use "auto"')

    def initial_state(self, batch: int, like: Tensor) -> State:
        """The cell's state before the first step; for two directions, a pair of them. Random ones are drawn for each
        row in training, around the cell's own start; in evaluation they are that, their mean."""
        states = tuple(cell.zero_state(batch, like) for cell in self._cells())
        if self.initial is not None:
            states = tuple(learned(start) for learned, start in zip(self.initial, states, strict=True))
        elif self.initial_std and self.training:
            states = map_state(lambda start: start + self.initial_std * torch.randn_like(start), states)
        else:
            return states if len(states) == 2 else states[0]
        return self.first_state(states if len(states) == 2 else states[0])

    def first_state(self, given: State) -> State:
        """The first state made of given numbers; for two directions, a pair of them."""
        cells = self._cells()
        if len(cells) == 1:
            return cells[0].first_state(given)
        return tuple(cell.first_state(part) for cell, part in zip(cells, given, strict=True))

    def zero_state(self, batch: int, like: Tensor) -> State:
        """The cells' own start, in the shape of `initial_state`."""
        states = tuple(cell.zero_state(batch, like) for cell in self._cells())
        return states if len(states) == 2 else states[0]

    def start_segments(self, segments: Segments, state: State, like: Tensor) -> State:
        """The state before each segment: the initial one, but where a row begins the one given, if any."""
        initial = self.initial_state(segments.total, like)
        if len(self.cells) == 1:
            return segments.start(initial, state, backwards=False)
        given = (None, None) if state is None else state
        ahead, back = (
            segments.start(*pair, backwards=k == 1) for k, pair in enumerate(zip(initial, given, strict=True))
        )
        return ahead, back

    def forward(
        self,
        x: Tensor,
        lengths: Tensor | None,
        state: State,
        segments: Segments | None = None,
        source: Source | None = None,
    ) -> tuple[Tensor, State]:
        """x (B, T, I) -> outputs (B, T, O), zero past each row's end, and the state after each row's last step. With
        segments, `state` has the state before each of them; `source` is what a cell attends to that does."""
        outputs, final = self.directions(x, lengths, state, segments, source)
        return self.join(outputs, lengths), final

    def directions(
        self,
        x: Tensor,
        lengths: Tensor | None,
        state: State,
        segments: Segments | None = None,
        source: Source | None = None,
    ) -> tuple[list[Tensor], State]:
        """x (B, T, I) -> the outputs (B, T, H) of each direction, in the order of x, and the last state."""
        cells = self._cells()
        states = [state] if len(cells) == 1 else list(state)
        outputs, finals = self._run(cells, x, states, lengths, segments, source)
        if segments is not None:
            finals = segments.finals(finals)
        if not torch.compiler.is_compiling():
            for observe in self.observers:
                observe(x, lengths, state, outputs)
        return outputs, finals[0] if len(cells) == 1 else tuple(finals)

    def join(self, outputs: list[Tensor], lengths: Tensor | None) -> Tensor:
        """The outputs (B, T, H) of each direction -> (B, T, O), zero past each row's end."""
        if len(outputs) == 1:
            return outputs[0]
        merged = self._merge(*outputs)
        return zero_past_end(merged, lengths) if self.project else merged

    def join_ends(self, outputs: list[Tensor], lengths: Tensor | None) -> Tensor:
        """The outputs of each direction -> (B, O) of those with which each ends: the backward one at the first step."""
        ends = [last_of(outputs[0], lengths), *(back[:, 0] for back in outputs[1:])]
        return self.join([end[:, None] for end in ends], None if lengths is None else lengths.clamp(max=1))[:, 0]

    def pass_ends(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """x (B, T, O) that goes past the layer -> (B, O) beside `join_ends`: each half of it where its direction ends,
        or the mean of both ends where the directions have no halves of their own."""
        last = last_of(x, lengths)
        if len(self.cells) == 1:
            return last
        if self.merge != "concat":
            return (last + x[:, 0]) / 2
        half = x.size(-1) // 2
        return torch.cat((last[:, :half], x[:, 0, half:]), dim=-1)

    def step(self, x: Tensor, state: State, source: Source | None = None) -> tuple[Tensor, State]:
        """x (B, I) -> output (B, O), next state; one direction only."""
        cell = self._cells()[0]
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                x, (state,), source = _in_type_of(cell, x, [state], source)
                return self.step(x, state, source)
        attended = () if source is None else (source,)
        output, after = check_step(cell, cell.step(x, state, *attended), x.size(0))
        if not torch.compiler.is_compiling():
            for observe in self.observers:
                observe(x[:, None], None, state, [output[:, None]])
        return output, after

    def attention(self, x: Tensor, lengths: Tensor | None, state: State, source: Source) -> list[list[Tensor]]:
        """x (B, T, I), the first state -> of each direction the weights of each attention of a step (B, T, S), in the
        order of x and zero past each row's end; no lists where the layer runs without kernels."""
        cells, choice, found = self._cells(), self.choose(x.device.type), list[list[Tensor]]()
        states = [state] if len(cells) == 1 else list(state)
        if engine.BACKENDS[choice.backend].planned and x.size(0) and x.size(1):
            engine.run(cells, x, states, lengths, choice=choice, source=source, attention=found)
        return found

    def histories(self, x: Tensor, lengths: Tensor | None, state: State) -> list[State]:
        """x (B, T, I), the first state -> each direction's states after every step (B, T, n), in the order of x and
        zero past each row's end: a state of the cell whose tensors have a dimension of time."""
        cells, choice = self._cells(), self.choose(x.device.type)
        states, found = [state] if len(cells) == 1 else list(state), list[State]()
        if engine.BACKENDS[choice.backend].planned and x.size(0) and x.size(1):
            engine.run(cells, x, states, lengths, choice=choice, histories=found)
        if found:
            return found
        for cell, start, backwards in zip(cells, states, (False, True), strict=False):
            history = reference.history(cell, reverse_rows(x, lengths) if backwards else x, start)
            history = map_state(lambda part: zero_past_end(part, lengths), history)
            found.append(map_state(lambda part: reverse_rows(part, lengths), history) if backwards else history)
        return found

    def explain(self) -> str:
        """The backend that runs the cells where they are, why, and the plan."""
        cell = self._cells()[0]
        device = next(cell.parameters(), torch.empty(0)).device.type
        choice = self.choose(device)
        return engine.explain(cell, choice, directions=len(self.cells))

    def fallback(self, device: str) -> str:
        """How the cells run where it is without kernels, and why; else an empty string."""
        choice = self.choose(device)
        way = engine.BACKENDS[choice.backend]
        return "" if way.fast else f"{type(self._cells()[0]).__name__} runs more slowly, {way.words}: {choice.reason}"

    def _cells(self) -> list[Cell]:
        return [cell for cell in self.cells if isinstance(cell, Cell)]

    def _run(
        self,
        cells: list[Cell],
        x: Tensor,
        states: list[State],
        lengths: Tensor | None,
        segments: Segments | None = None,
        source: Source | None = None,
    ) -> tuple[list[Tensor], list[State]]:
        """Each direction's outputs, in the order of the input, and its last state, of each segment if there are any."""
        if x.size(0) == 0 or x.size(1) == 0:
            return [_no_outputs(cell, x) for cell in cells], states
        choice = self.choose(x.device.type)
        if engine.BACKENDS[choice.backend].planned:
            number = self.enrolled
            return engine.run(cells, x, states, lengths, choice=choice, segments=segments, source=source, layer=number)
        if segments is not None:
            theirs = source and source.select(segments.rows(x))
            return segments.run_padded(lambda rows, ends: self._run(cells, rows, states, ends, source=theirs), x)
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):  # which no backend follows there
                x, states, source = _in_type_of(cells[0], x, states, source)
                return self._run(cells, x, states, lengths, source=source)
        x = zero_past_end(x, lengths)
        attended = () if source is None else (source,)
        run: Callable[..., tuple[Tensor, State]] = RUN[choice.backend]
        outputs, finals = [], []
        for cell, state, backwards in zip(cells, states, (False, True), strict=False):
            output, final = run(cell, reverse_rows(x, lengths) if backwards else x, state, lengths, *attended)
            outputs.append(reverse_rows(output, lengths) if backwards else output)
            finals.append(final)
        return outputs, finals

    def choose(self, device: str) -> engine.BackendChoice:
        """The backend on a kind of device, and why it is no better one."""
        if self.backend in RUN:
            return engine.BackendChoice(self.backend, "as asked", -1)
        cell = self._cells()[0]
        if torch.compiler.is_compiling():
            settings = tuple(getattr(cell, name, None) for name in self.settings)
            choice = engine.BackendChoice(*engine.choose_enrolled(self.enrolled, device, settings))
        else:
            choice = engine.choose(cell, device)
        if choice.backend == "plain" and self.backend == "auto" and not vendor.missing(cell):
            return choice._replace(backend="vendor")
        if choice.backend == "reference" and self.backend != "auto":
            what = f'"{self.backend}" cannot run {type(cell).__name__}: {choice.reason}'
            raise ConfigError(what, where="backend", cure='use "auto"')
        if self.backend == "scan" and not engine.is_linear(choice):
            what = f'"scan" cannot run {type(cell).__name__}: it is not linear in its state'
            raise ConfigError(what, where="backend", cure='use "auto"')
        return choice._replace(method=self.backend) if self.backend in ("loop", "scan") else choice

    def _enroll(self) -> None:
        """Let torch.compile ask about the cell; it makes a graph anew when one of these settings changes."""
        cell = self._cells()[0]
        self.enrolled = engine.enroll(cell)
        self.settings = [name for name, value in vars(cell).items() if isinstance(value, (bool, int, float, str))]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has a cell of its own."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._enroll()

    def _merge(self, ahead: Tensor, back: Tensor) -> Tensor:
        """Two of (B, T, H) -> (B, T, 2H) by concatenation, else (B, T, H)."""
        if self.merge == "sum":
            return ahead + back
        if self.merge == "mean":
            return (ahead + back) / 2
        both = torch.cat((ahead, back), dim=-1)
        return both if self.project is None else self.project(both)


def _in_type_of(
    cell: Cell, x: Tensor, states: list[State], source: Source | None
) -> tuple[Tensor, list[State], Source | None]:
    """All in the type of a cell's numbers."""
    x = x.to(engine.dtype_of(cell))
    return x, [map_state(lambda part: part.to(x.dtype), state) for state in states], source and source.to(x)


def _no_outputs(cell: Cell, x: Tensor) -> Tensor:
    """The outputs of no rows or no steps, with a gradient of zero for all that outputs depend on."""
    empty = x.new_zeros(x.size(0), x.size(1), cell.output_size)
    if torch.is_grad_enabled():
        for tensor in (x, *cell.parameters()):
            if tensor.requires_grad:
                empty = empty + tensor.sum().to(empty.dtype)
    return empty


def slow_cells(model: nn.Module, device: str) -> tuple[str, ...]:
    """A sentence for each cell of a model that runs without kernels on a kind of device, with the reason."""
    found = dict.fromkeys(layer.fallback(device) for layer in model.modules() if isinstance(layer, Layer))
    return tuple(sentence for sentence in found if sentence)


class LearnedState(nn.Module):
    """A learned tensor, added to each tensor of a cell's own start; the same for each row, zero before training."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.parts = nn.ParameterList()
        like = next(cell.parameters(), torch.empty(0))
        map_state(self._add, cell.zero_state(1, like))

    def forward(self, start: State) -> State:
        """The cell's own start for any number of rows -> the learned one."""
        parts = iter(self.parts)
        return map_state(lambda own: own + next(parts), start)

    def _add(self, own: Tensor) -> Tensor:
        self.parts.append(nn.Parameter(torch.zeros_like(own[0])))
        return own
