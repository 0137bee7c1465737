"""Gates over time: when a recurrent layer keeps, writes and shows, by the names of its cell's own equations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from torch import Tensor, nn

from weft.charts import Table
from weft.inspect.cell_equations import cell_equations
from weft.inspect.heat_chart import heat_chart, line_chart, rows_that_fit
from weft.inspect.lesson import kind_of
from weft.inspect.readings import DIRECTIONS, PARTS, choose_pass, choose_reading, read_all
from weft.inspect.recurrent_trace import forget_products
from weft.inspect.terminal import heat_lines, scale_line
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.run import Run

Numbers = NDArray[np.float32]

SHOWN: Final = {"gates": ("gate",), "all": ("gate", "candidate", "state", "output")}
"""The kinds of values that each choice of `values` shows."""


@dataclass(frozen=True)
class Gate:
    """One value of a cell over time: `units` (n, T)."""

    name: str
    kind: str
    units: Numbers

    @property
    def signed(self) -> bool:
        return self.kind != "gate"

    @property
    def mean(self) -> Numbers:
        """The mean over units at each step, (T,)."""
        found: Numbers = self.units.mean(0)
        return found


@dataclass(frozen=True)
class Product:
    """∂s_T/∂s_t of a tensor of the state along its direct path: the product of its factors after step t, (n, T)."""

    state: str
    factor: str
    units: Numbers


@dataclass(frozen=True)
class GateValues(View):
    """The gates of one recurrent layer at each token of a text."""

    part: str
    layer: int
    direction: str
    cell: str
    tokens: tuple[str, ...]
    gates: tuple[Gate, ...]
    products: tuple[Product, ...]
    shown_units: int
    cell_equations: str = ""
    """The equations of the cell, as its docstring states them; empty where it has none."""

    name: ClassVar[str] = "gates"

    @property
    def title(self) -> str:
        return f"Gates of the {self.cell}, {place_of(self.part, self.layer, self.direction)}"

    @property
    def summary(self) -> str:
        names = ", ".join(gate.name for gate in self.gates)
        text = f"{names} at each token, as a mean over units and for the units that vary most; a gate near 1 is open."
        for one in self.products:
            text += f" {_derivative(one)} is the share of the state after a token that is left at the end."
        return text

    @property
    def equations(self) -> str:
        """The equations of the cell, and the product of factors along the direct path of each state."""
        paths = []
        for one in self.products:
            factor = one.factor if one.factor.isalnum() else f"({one.factor})"
            paths.append(f"{_derivative(one)} = {factor}_{{t+1}} ⊙ … ⊙ {factor}_T     along the path of {one.state}")
        return "\n".join([*filter(None, [self.cell_equations]), *paths])

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": self.name,
            "part": self.part,
            "layer": self.layer,
            "direction": self.direction,
            "cell": self.cell,
            "tokens": list(self.tokens),
            "values": [
                {"name": gate.name, "kind": gate.kind, "mean": plain(gate.mean), "units": plain(gate.units)}
                for gate in self.gates
            ],
            "products": [
                {"state": one.state, "factor": one.factor, "mean": plain(one.units.mean(0)), "units": plain(one.units)}
                for one in self.products
            ],
        }

    def chart(self) -> Any:
        import altair

        names, means = self._means()
        parts: list[Any] = [line_chart(np.stack(means), names, self.tokens, title="mean over units")] if names else []
        for signed in (False, True):
            group = [gate for gate in self.gates if gate.signed == signed]
            if group:
                parts.append(self._heat(group, signed=signed))
        return altair.vconcat(*parts).resolve_scale(color="independent")

    def table(self) -> Table:
        headings = ("position", "token", *(f"mean {gate.name}" for gate in self.gates))
        means = [gate.mean.tolist() for gate in self.gates]
        rows = zip(range(1, len(self.tokens) + 1), self.tokens, *means, strict=True)
        return Table(headings, list(rows))

    def lines(self, width: int) -> list[Text]:
        names, means = self._means()
        found = [Text(self.title, style="bold"), Text(self.summary), Text()]
        found += heat_lines([row.tolist() for row in means], names, self.tokens, width=width)
        found.append(scale_line("0", "1"))
        for gate in self.gates:
            units = busiest(gate.units, rows_that_fit(len(self.tokens), min(8, self.shown_units)))
            rows, ends = gate.units[units], ("0", "1")
            if gate.signed:
                limit = scale_of(gate.units)
                rows = np.clip(rows / limit + 1, 0, 2) / 2
                ends = f"{-limit:.2g}", f"{limit:.2g}"
            found += [Text(), Text(f"{gate.name}, the units that vary most")]
            found += heat_lines(rows.tolist(), [f"{gate.name} {unit}" for unit in units], self.tokens, width=width)
            found.append(scale_line(*ends))
        return found

    def _means(self) -> tuple[list[str], list[Numbers]]:
        """The means over units of gates and products, which all lie between 0 and 1."""
        gates = [gate for gate in self.gates if not gate.signed]
        names = [gate.name for gate in gates] + [_derivative(one) for one in self.products]
        return names, [gate.mean for gate in gates] + [one.units.mean(0) for one in self.products]

    def _heat(self, group: list[Gate], *, signed: bool) -> Any:
        each = rows_that_fit(len(self.tokens), self.shown_units * len(group)) // len(group)
        names: list[str] = []
        rows: list[Numbers] = []
        for gate in group:
            units = busiest(gate.units, max(1, each))
            names += [f"{gate.name} mean", *(f"{gate.name} {unit}" for unit in units)]
            rows += [gate.mean, *gate.units[units]]
        limit = max(scale_of(gate.units) for gate in group) if signed else 1.0
        title = "value" if signed else "gate"
        return heat_chart(np.stack(rows), names, self.tokens, title=title, signed=signed, limit=limit)


def gates(
    run: Run | nn.Module,
    text: Any,
    *,
    target: str | None = None,
    part: str = "auto",
    layer: int = 0,
    direction: str = "forward",
    values: str = "gates",
    units: int = 12,
) -> GateValues | Nothing:
    """Return the gates of a recurrent layer at each token; `run` may be an RNN or a cell, and `text` a tensor (T, I).

    `part` is "encoder" or "decoder"; `layer` counts from 1, and 0 is the last; `values="all"` adds candidates and
    states; `units` is the number of units that the chart shows of each gate.
    """
    readings = [reading for reading in read_all(run, text, target) if reading.passes]
    if not readings:
        return Nothing("gates", f"{kind_of(run)} has no recurrent layers, and so no gates")
    reading = choose_reading(readings, part)
    found = choose_pass(reading, layer, direction)
    read, cell = found.read(), type(found.cell).__name__
    chosen = tuple(
        Gate(value.name, value.kind, _by_unit(value.values)) for value in read.values if value.kind in SHOWN[values]
    )
    if not chosen:
        return Nothing("gates", f"{cell} has no gates: no value of its step is the result of σ")
    products = []
    for kept in read.kept:
        factors = kept.values.flip(1) if direction == "backward" else kept.values
        left = forget_products(factors)
        left = left.flip(1) if direction == "backward" else left
        products.append(Product(kept.state, kept.name, _by_unit(left)))
    tokens = reading.tokens
    equations = cell_equations(found.cell)
    return GateValues(reading.part, found.layer, direction, cell, tokens, chosen, tuple(products), units, equations)


def place_of(part: str, layer: int, direction: str) -> str:
    """Name a layer: "encoder, layer 2, backward"."""
    return ", ".join([*([part] if part else []), f"layer {layer}", *(["backward"] if direction == "backward" else [])])


def busiest(values: Numbers, count: int) -> list[int]:
    """values (n, T) -> the units that vary most over time."""
    spread = np.nan_to_num(values).std(1)
    return [int(unit) for unit in np.argsort(-spread, kind="stable")[:count]]


def scale_of(values: Numbers) -> float:
    """The limit of a scale around zero: a size that one value of a hundred exceeds."""
    sizes = np.abs(values[np.isfinite(values)])
    return max(1e-6, float(np.quantile(sizes, 0.99)) if len(sizes) else 0.0)


def plain(values: Numbers) -> Any:
    """Return numbers as lists for JSON; None stands where there is no number."""
    rounded = np.round(values.astype(np.float64), 6)
    if np.isfinite(rounded).all():
        return rounded.tolist()
    plain_values = rounded.astype(object)
    plain_values[~np.isfinite(rounded)] = None
    return plain_values.tolist()


def _by_unit(values: Tensor) -> Numbers:
    """values (1, T, n) -> (n, T)."""
    found: Numbers = values[0].T.float().cpu().numpy()
    return found


def _derivative(one: Product) -> str:
    return f"∂{one.state}_T/∂{one.state}_t"


KIND = ViewKind(
    "gates",
    "When does it keep, write, show?",
    gates,
    takes_target=True,
    options={
        "part": Option("choice", "auto", "part", choices=PARTS),
        "layer": Option("int", 0, "layer (0: the last)", low=0, high=64),
        "direction": Option("choice", "forward", "direction", choices=DIRECTIONS),
        "values": Option("choice", "gates", "values", choices=tuple(SHOWN)),
        "units": Option("int", 12, "units of each gate", low=1, high=64),
    },
)
