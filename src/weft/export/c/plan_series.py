"""The plan of forecasters: a line is a series, the answer its next steps."""

from __future__ import annotations

from typing import Any, Final

from weft.data.series_time import MONTHS_PER, SECONDS, read_frequency
from weft.errors import ConfigError
from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_reading import doubles, quoted, reading, strings
from weft.export.c.source import read
from weft.export.c.states import GIVEN, state_types, write_states
from weft.export.graph import Program
from weft.models.forecaster import Forecaster
from weft.run import Run
from weft.tasks.forecast_encoding import SeriesTask
from weft.tasks.forecast_scaling import COVARIATES, MIN_ZEROS, STATIC

CYCLES: Final = {"day": 0, "week": 1, "year": 2}


def plan_forecast(run: Run, program: Program, constants: Constants) -> Plan:
    """A direct network has the graph "forward"; a recursive one makes a state by "start" and a quantile per step."""
    task, model = run.task, run.model
    assert isinstance(task, SeriesTask)
    assert isinstance(model, Forecaster)
    data, recursive, scalings = task.data, "step" in program.graphs, list(task.scalings.values())
    plan, levels = reading(run, []), list(model.levels)
    every, unit = _clock(data) if data.calendar else (1, 0)
    plan.graphs = ["start", "step"] if recursive else ["forward"]
    plan.limits = {field.grows: "SERIES_PAST" for field in program.state if field.grows}
    plan.longest = 1
    plan.defines |= {
        "WEFT_NUMBERS_HELP": quoted(f"the line is no series that this model reads: give {_example(data)}"),
        "SERIES_HISTORY": task.history,
        "SERIES_HORIZON": task.horizon,
        "SERIES_PAST": f"({model.reads - 1} + SERIES_HORIZON)",
        "SERIES_FIRST_STEP": model.reads - 1,
        "SERIES_LEVELS": len(levels),
        "SERIES_MEDIAN": levels.index(0.5),
        "SERIES_NAMES": len(scalings),
        "SERIES_PASTS": len(data.past),
        "SERIES_KNOWN": len(data.known),
        "SERIES_CYCLES": len(data.calendar or ()),
        "SERIES_STATIC": len(data.static_numbers),
        "SERIES_CATEGORIES": len(data.categories or {}),
        "SERIES_RECURSIVE": int(recursive),
        "SERIES_MIN_ZEROS": repr(MIN_ZEROS),
        "SERIES_EVERY": every,
        "SERIES_UNIT": unit,
    }
    statistics = task.codec.statistics
    plan.declared = [
        *strings("series_names", list(task.scalings)),
        *doubles("series_means", [one.mean for one in scalings]),
        *doubles("series_scales", [one.scale for one in scalings]),
        *doubles("series_floors", [one.floor for one in scalings]),
        *doubles("series_levels", levels),
    ]
    for name in (COVARIATES, STATIC):
        if name in statistics:
            plan.declared += [*doubles(f"{name}_means", statistics[name].mean)]
            plan.declared += [*doubles(f"{name}_scales", statistics[name].scale)]
    if data.calendar:
        cycles = ", ".join(str(CYCLES[name]) for name in data.calendar)
        plan.declared += [f"static const int series_cycles[] = {{{cycles}}};", ""]
    for number, texts in enumerate((data.categories or {}).values()):
        plan.declared += strings(f"category_{number}", texts)
    if data.categories:
        sizes = ", ".join(str(len(texts)) for texts in data.categories.values())
        tables = ", ".join(f"category_{number}" for number in range(len(data.categories)))
        plan.declared += [
            f"static const int category_sizes[] = {{{sizes}}};",
            f"static const char *const *const category_texts[] = {{{tables}}};",
            "",
        ]
    _add_memory(plan, recursive=recursive)
    plan.types = state_types(program.state) if recursive else []
    plan.before = write_states(program, start="start") if recursive else [_forward(program)]
    plan.sources = [read("json.c"), *([read("calendar.c")] if data.calendar else []), read("task_forecast.c")]
    return plan


def _example(data: Any) -> str:
    """The form that a line must have: numbers alone, or an object."""
    row = "[[0.5, …], …]"
    parts = {
        "past": f"{row} for each step" if data.past else "",
        "known": f"{row} for each step and those to forecast" if data.known else "",
        "static": "[0.5, …]" if data.static_numbers else "",
        "start": '"2024-01-31"' if data.calendar else "",
    }
    needed = "".join(f', "{name}": {value}' for name, value in parts.items() if value)
    return f'{{"target": [3.5, null, 4, …]{needed}}}' if needed else "numbers in the order of time, [3.5, null, 4, …]"


def _add_memory(plan: Plan, *, recursive: bool) -> None:
    plan.fields += [
        "double *window; /* the history as it is given */",
        "float *target, *past, *known, *static_, *quantiles;",
        "int32_t *observed, *categories, series;",
    ]
    plan.arrange += [
        "m->window = weft_take(m, 8 * SERIES_HISTORY);",
        "m->target = weft_take(m, 4 * SERIES_HISTORY), m->observed = weft_take(m, 4 * SERIES_HISTORY);",
        "m->past = weft_take(m, 4 * SERIES_HISTORY * (SERIES_PASTS + 1));",
        "m->known = weft_take(m, 4 * (SERIES_HISTORY + SERIES_HORIZON) * (SERIES_KNOWN + 2 * SERIES_CYCLES + 1));",
        "m->static_ = weft_take(m, 4 * (SERIES_STATIC + 1));",
        "m->categories = weft_take(m, 4 * (SERIES_CATEGORIES + 1));",
        "m->quantiles = weft_take(m, 4 * SERIES_HORIZON * SERIES_LEVELS);",
    ]
    if recursive:
        plan.fields += ["long source;", "weft_state state[2];"]
        plan.arrange += [
            "state_arrange(m, &m->state[0], 0, SERIES_PAST, 0);",
            "state_arrange(m, &m->state[1], &m->state[0], SERIES_PAST, 1);",
        ]


def _forward(program: Program) -> str:
    """The call of the only graph of a direct network."""
    graph = program.graphs["forward"]
    inputs = ", ".join(GIVEN.get(value.name, f"m->{value.name}") for value in graph.inputs)
    return f"""static int series_forward(weft_model *m)
{{
    return graph_forward(m, {inputs}, m->quantiles);
}}
"""


def _clock(data: Any) -> tuple[int, int]:
    """The distance of two steps: so many seconds (0), months (1) or days from Monday to Friday (2)."""
    if data.frequency is None:
        cure = "train with data.frequency, or with data.calendar=[]"
        raise ConfigError("is read, and the distance of steps is not known", where="data.calendar", cure=cure)
    every, unit = read_frequency(data.frequency)
    if unit in MONTHS_PER:
        return every * MONTHS_PER[unit], 1
    return (every, 2) if unit == "B" else (every * SECONDS[unit], 0)
