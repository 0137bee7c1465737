"""States over time: the value of each unit of a layer at each token of a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.text import Text
from torch import nn

from weft.charts import Table
from weft.errors import ConfigError
from weft.inspect.gate_values import Numbers, busiest, place_of, plain, scale_of
from weft.inspect.heat_chart import heat_chart, rows_that_fit
from weft.inspect.lesson import kind_of
from weft.inspect.readings import DIRECTIONS, PARTS, check_layer, choose_pass, choose_reading, read_all
from weft.inspect.state_search import StateSearch, search_states
from weft.inspect.terminal import heat_lines, scale_line
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.run import Run

TERMINAL_UNITS = 16
"""Units that a terminal shows."""


@dataclass(frozen=True)
class UnitStates(View):
    """The states of one layer at each token of a text: `values` (n, T)."""

    part: str
    layer: int
    direction: str
    state: str
    """The name of the state in the cell's equations; "output" for a layer without recurrence."""
    tokens: tuple[str, ...]
    values: Numbers
    shown_units: int

    name: ClassVar[str] = "states"
    equation: ClassVar[str] = (
        "h_t = f(h_{t-1}, x_t), or the output of a block at position t; a row for each unit of h, a column for each t"
    )

    @property
    def title(self) -> str:
        return f"State {self.state} of the {place_of(self.part, self.layer, self.direction)}"

    @property
    def summary(self) -> str:
        return (
            f"The value of {self.state} after each token, for the units that vary most of {len(self.values)}. A unit "
            "that keeps its colour over several tokens holds on to something; the state search finds out what."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": self.name,
            "part": self.part,
            "layer": self.layer,
            "direction": self.direction,
            "state": self.state,
            "tokens": list(self.tokens),
            "units": plain(self.values),
        }

    def chart(self) -> Any:
        units, limit = busiest(self.values, rows_that_fit(len(self.tokens), self.shown_units)), scale_of(self.values)
        names = [f"unit {unit}" for unit in units]
        return heat_chart(self.values[units], names, self.tokens, title=self.state, signed=True, limit=limit)

    def table(self) -> Table:
        units = busiest(self.values, self.shown_units)
        columns = [self.values[unit].tolist() for unit in units]
        rows = zip(range(1, len(self.tokens) + 1), self.tokens, *columns, strict=True)
        return Table(("position", "token", *(f"unit {unit}" for unit in units)), list(rows))

    def lines(self, width: int) -> list[Text]:
        units = busiest(self.values, min(TERMINAL_UNITS, self.shown_units))
        limit = scale_of(self.values)
        rows = np.clip(self.values[units] / limit + 1, 0, 2) / 2
        found = [Text(self.title, style="bold"), Text(self.summary), Text()]
        found += heat_lines(rows.tolist(), [f"unit {unit}" for unit in units], self.tokens, width=width)
        return [*found, scale_line(f"{-limit:.2g}", f"{limit:.2g}")]


def states(
    run: Run | nn.Module,
    text: Any,
    *,
    target: str | None = None,
    part: str = "auto",
    layer: int = 0,
    direction: str = "forward",
    state: str = "",
    units: int = 24,
    **search: Any,
) -> UnitStates | StateSearch | Nothing:
    """Return the states of a layer at each token of a text; with a `Path`, search the texts of that file.

    `state` is a name of the cell's equations, such as "c" of an LSTM; without one it is the cell's output. `units` is
    the number of units that the chart shows. `run` may be an RNN or a cell, and `text` a tensor (T, I). Options of
    `search_states` go with a file alone.
    """
    if isinstance(run, Run) and isinstance(text, Path):
        return search_states(run, text, part=part, layer=layer, direction=direction, state=state, **search)
    if search:
        raise ConfigError("is for a search in a file", where=next(iter(search)), cure="name a file in place of a text")
    readings = read_all(run, text, target)
    if not readings:
        return Nothing("states", f"{kind_of(run)} has no states over time")
    reading = choose_reading(readings, part)
    number = check_layer(reading, layer)
    if reading.passes:
        name, values = choose_pass(reading, layer, direction).choose_state(state)
        numbers = values[0].T.float().cpu().numpy()
    else:
        if state not in ("", "output"):
            raise ConfigError("the layers have outputs alone", where=f'state = "{state}"', cure="leave it out")
        name, numbers = "output", reading.outputs[number - 1].T.float().cpu().numpy()
    return UnitStates(reading.part, number, direction, name, reading.tokens, np.ascontiguousarray(numbers), units)


KIND = ViewKind(
    "states",
    "Which units hold on to what?",
    states,
    takes_target=True,
    options={
        "part": Option("choice", "auto", "part", choices=PARTS),
        "layer": Option("int", 0, "layer (0: the last)", low=0, high=64),
        "direction": Option("choice", "forward", "direction", choices=DIRECTIONS),
        "state": Option("text", "", "state, such as c"),
        "units": Option("int", 24, "units shown", low=1, high=128),
    },
)
