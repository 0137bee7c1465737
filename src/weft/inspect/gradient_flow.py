"""The view `gradients`: does learning reach the past? ‖∂L/∂h_t‖ by time step and layer, of a run or of fresh cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import torch
from rich.text import Text
from torch import Tensor, nn

from weft.charts import Table, readable
from weft.errors import ConfigError
from weft.inspect.fresh_cells import FreshFlow, compare_cells
from weft.inspect.gradient_chart import SMALLEST, describe_peaks, draw_panel
from weft.inspect.gradient_recording import RecordedStates, record_states
from weft.inspect.lesson import Taught, kind_of, loss_of, prepare_lesson
from weft.inspect.terminal import heat_lines, scale_line
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.models import FittedModel
from weft.nn import RNN
from weft.nn.recurrent.cells import CellChoice
from weft.run import Run

EQUATION: Final = """\
∂L/∂h_t = Σ_{i ≥ t} (∂h_i/∂h_t)ᵀ ∂L_i/∂h_i
∂h_T/∂h_t = Π_{i=t+1..T} diag(S'(a_i)) W_hh          ‖∂h_T/∂h_t‖ ≤ (γ λ₁)^(T-t)
LSTM, along the cell:  ∂c_T/∂c_t = Π_{i=t+1..T} f_i"""


@dataclass(frozen=True)
class FlowLine:
    """The norms of one layer, or of one cell, over time."""

    name: str
    part: str
    norms: tuple[float, ...]
    positions: tuple[str, ...]
    """The token that is read at each step, or the number of the step."""
    spectral_norm: float | None = None
    spectral_radius: float | None = None
    bound: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The norm at the first step as a share of that at the last one that has a gradient."""
        known = [norm for norm in self.norms if norm > 0]
        return self.norms[0] / known[-1] if known else None


@dataclass(frozen=True)
class GradientFlow(View):
    """Gradient norms by time step, a line for each layer or cell."""

    lines_: tuple[FlowLine, ...]
    answer: str = ""
    """The answer that the loss is computed for; empty for fresh cells."""

    name: ClassVar[str] = "gradients"
    equation: ClassVar[str] = EQUATION

    @property
    def title(self) -> str:
        return "Gradient flow"

    @property
    def summary(self) -> str:
        if not self.answer and all(not line.part for line in self.lines_):
            return (
                "Each line is the norm of the gradient of the last output with respect to the state after each step, "
                "on a logarithmic axis. A line that falls to the left means that learning does not reach the past. "
                "Dashed: the bound (γ λ₁)^(T-t) of a cell with one matrix."
            )
        return (
            "Each line is the norm of the gradient of the loss with respect to the state of a layer at each position, "
            "on a logarithmic axis. Where it is small, the answer hardly depends on what was read there, and little is "
            f"learned about it.{describe_peaks(max(len(line.positions) for line in self.lines_))}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "lines": [
                {
                    "name": line.name,
                    "part": line.part,
                    "positions": list(line.positions),
                    "norms": [norm if math.isfinite(norm) else None for norm in line.norms],
                    "first_to_last": line.ratio if line.ratio is None or math.isfinite(line.ratio) else None,
                    "spectral_norm": line.spectral_norm,
                    "spectral_radius": line.spectral_radius,
                    "bound": [value if math.isfinite(value) else None for value in line.bound],
                }
                for line in self.lines_
            ],
        }

    def chart(self) -> Any:
        import altair

        parts = dict.fromkeys(line.part for line in self.lines_)
        panels = [draw_panel([line for line in self.lines_ if line.part == part], part) for part in parts]
        return altair.vconcat(*panels, spacing=24).resolve_scale(color="independent")

    def table(self) -> Table:
        rows = [
            (line.part or "—", line.name, step, readable(token), norm)
            for line in self.lines_
            for step, (token, norm) in enumerate(zip(line.positions, line.norms, strict=True))
        ]
        return Table(("part", "layer", "step", "token", "norm"), rows)

    def lines(self, width: int) -> list[Text]:
        found = [Text(self.title, style="bold"), Text(self.summary), Text()]
        shown = [norm for line in self.lines_ for norm in line.norms if norm > SMALLEST and math.isfinite(norm)]
        if not shown:
            return [*found, Text("all gradients are zero")]
        low, high = math.log10(min(shown)), math.log10(max(shown))
        for part in dict.fromkeys(line.part for line in self.lines_):
            lines = [line for line in self.lines_ if line.part == part]
            tokens = max((line.positions for line in lines), key=len)
            names, steps = [line.name for line in lines], all(token.isdecimal() for token in tokens)
            found += [Text(part, style="bold")] if part else []
            values = [[_share(norm, low, high) for norm in line.norms] for line in lines]
            if steps:  # numbers of steps say nothing, and many steps fit into one line
                most = max(8, width - max(map(len, names)) - 2)
                values, tokens = [_thin(row, most) for row in values], ()
            found += [*heat_lines(values, names, tokens, width=width, each=1 if steps else 3)]
            found += [scale_line(f"{10**low:.0e}", f"{10**high:.0e}, in powers of ten", blank=False), Text()]
        found += [
            Text(f"{_label(line)}: {line.norms[0]:.1e} at the first step, {line.norms[-1]:.1e} at the last")
            for line in self.lines_
        ]
        for line in self.lines_:
            if line.spectral_norm is not None:
                known = f"λ₁ = {line.spectral_norm:.3f}, spectral radius {line.spectral_radius:.3f}"
                found.append(Text(f"{line.name}: {known}"))
        return found


def _share(norm: float, low: float, high: float) -> float:
    """The place of a norm between the smallest and the largest on a logarithmic axis, from 0.17 to 1; 0 for none."""
    if not SMALLEST < norm < math.inf:
        return 0.0
    return 0.17 + 0.83 * ((math.log10(norm) - low) / (high - low) if high > low else 1.0)


def _label(line: FlowLine) -> str:
    return f"{line.part} {line.name}".strip()


def _thin(norms: Sequence[float], most: int) -> list[float]:
    """At most so many numbers: the largest of each group of neighbours."""
    each = -(-len(norms) // most)
    return [max(norms[first : first + each]) for first in range(0, len(norms), each)]


def gradients(
    what: Run | RNN | CellChoice | Sequence[CellChoice], text: Any = None, *, target: str | None = None, **options: Any
) -> View:
    """Return the gradient norms by time step of a run on a text, of an RNN on a tensor, or of fresh cells.

    gradients(run, "the cat sleeps")                      of the loss of the model's own answer; `target` gives another
    gradients(rnn, x)                                     of the sum of the last output of an RNN over x (B, T, I)
    gradients(["elman", "lstm"], length=128)              of fresh cells side by side; see `flow_through` for options
    """
    if isinstance(what, Run):
        _refuse(options)
        return _of_run(what, text, target)
    if isinstance(what, RNN):
        _refuse(options)
        return _of_rnn(what, text)
    cells = list(what) if isinstance(what, Sequence) and not isinstance(what, str) else [what]
    return GradientFlow(tuple(map(_fresh_line, compare_cells(cells, **options))))


def _refuse(options: dict[str, Any]) -> None:
    if options:
        raise ConfigError("is an option of fresh cells", where=next(iter(options)), cure="leave it out")


def _fresh_line(flow: FreshFlow) -> FlowLine:
    steps = tuple(str(step) for step in range(1, len(flow.norms) + 1))
    return FlowLine(flow.name, "", flow.norms, steps, flow.spectral_norm, flow.spectral_radius, flow.bound)


def _of_run(run: Run, text: Any, target: str | None) -> View:
    if isinstance(run.model, FittedModel):
        return Nothing("gradients", f"{kind_of(run)} has no layers over time")
    if text is None:
        raise ConfigError("needs an input", where="gradients", cure="give a text")
    taught = prepare_lesson(run, text, target)
    found = _differentiate(run.model, lambda: _objective(run, taught))
    positions = taught.lesson.positions
    lines = tuple(_line(one, positions.get(one.part, ())) for one in found if one.states)
    if not lines:
        return Nothing("gradients", f"{kind_of(run)} has no layers over time")
    return GradientFlow(lines, answer=taught.answer or str(text))


def _objective(run: Run, taught: Taught) -> Tensor:
    """The loss, of which the model's own number has none: then the distance to the mean of the training data."""
    batch = taught.lesson.batch
    if not taught.given and hasattr(batch, "numbers"):
        taught = taught._replace(lesson=taught.lesson._replace(batch=replace(batch, numbers=batch.numbers * 0)))
    return loss_of(run, taught)


def _of_rnn(rnn: RNN, x: Any) -> View:
    if not isinstance(x, Tensor) or x.dim() != 3:
        raise ConfigError("an RNN reads a tensor (B, T, I)", where="gradients", cure="give one as the second argument")
    found = _differentiate(rnn, lambda: rnn(x)[0][:, -1].sum())
    steps = tuple(map(str, range(1, x.size(1) + 1)))
    return GradientFlow(tuple(_line(one, steps) for one in found if one.states))


def _differentiate(model: nn.Module, objective: Callable[[], Tensor]) -> list[RecordedStates]:
    """Run and differentiate; the gradients that the parameters had before are there again afterwards."""
    kept = {weight: weight.grad for weight in model.parameters()}
    flags = {weight: weight.requires_grad for weight in model.parameters()}
    try:
        for weight in kept:
            weight.grad = None
            weight.requires_grad_(True)
        with torch.enable_grad(), record_states(model) as found:
            objective().backward()  # type: ignore[no-untyped-call]
        return found
    finally:
        for weight, gradient in kept.items():
            weight.grad = gradient
            weight.requires_grad_(flags[weight])


def _line(one: RecordedStates, positions: Sequence[str]) -> FlowLine:
    norms = tuple(one.norms())
    steps = tuple(positions) if len(positions) == len(norms) else tuple(map(str, range(1, len(norms) + 1)))
    layer = "embedding" if one.layer == 0 else f"layer {one.layer}"
    return FlowLine(f"{layer} {one.direction}".strip(), one.part, norms, steps)


KIND: Final = ViewKind("gradients", "Does learning reach the past?", gradients, takes_target=True)

LESSON_OPTIONS: Final = {
    "length": Option("int", 128, "steps", 2, 512),
    "hidden": Option("int", 128, "units", 2, 256),
    "radius": Option("float", None, "spectral radius of the state's matrices", 0.1, 3.0),
    "forget_bias": Option("float", 1.0, "forget bias", -3.0, 6.0),
    "seed": Option("int", 0, "seed", 0, 10_000),
}
"""The options of fresh cells, for the command line and the sliders of the studio."""


def norm_shrinkage(x: Tensor) -> tuple[float, float]:
    """x (D,) -> how much LayerNorm shrinks a gradient that passes it backwards, measured, and √D/‖x - mean(x)‖.

    The measured factor is the mean over random gradients of ‖Jᵀ g‖ / ‖g‖, with J the Jacobian of the norm at x.
    """
    x = x.detach().double()
    norm = nn.LayerNorm(x.numel(), elementwise_affine=False, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(norm, x)  # type: ignore[no-untyped-call]
    drawn = torch.randn(256, x.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    measured = float(((drawn @ jacobian).norm(dim=1) / drawn.norm(dim=1)).mean())
    return measured, float(x.numel() ** 0.5 / (x - x.mean()).norm())
