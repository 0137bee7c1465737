"""Forecasters as graphs: from a window of a series to the quantiles of its next steps.

What a window is made of is the host's part: each value of the target less the mean of its series and over its scale, 0
where it is missing; other columns and static numbers standardised, calendar columns, the numbers of the series and of
categories (0 for one that was not seen in training). After the graph the host multiplies by the scale, adds the mean
and raises to the floor of the series; the forecast is the quantile of 0.5. All else is in the graph: gaps, level and
scale of the window, simple forecasts and their mixture, the network, the output, and offsets of the quantiles.

direct      "forward": target (L), observed (L) bool[, past (L, P)][, known (L + H, K)][, series ()][, static (S)]
            [, categories (C)] -> quantiles (H, Q)
recursive   "start": the same -> the fields of the state;  "step": step (), from 0 to H - 1, and the state
            -> quantiles (Q), the next state

L history, H horizon, R steps that the network reads, F features of a step, Q quantiles, m season.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from weft.export.graph.build import Builder
from weft.export.graph.forecast_output import quantiles_of
from weft.export.graph.forecast_window import Window, normalise, read_window, simple_forecasts
from weft.export.graph.graph import Graph, Program, StateField, Value
from weft.export.graph.lower_decoder import State, decoder_graph
from weft.export.graph.lower_input import dense
from weft.export.graph.making import Making
from weft.models.forecast_skip import SIMPLE, SPEED
from weft.models.forecaster import Forecaster


class Prepared(NamedTuple):
    """A window as the network and the output read it: level and scale (), simple forecasts (H, 6), the features of the
    steps read (R, F), what is the same at all steps (W), and the linear map of the window (H)."""

    window: Window
    level: Value
    scale: Value
    simple: Value
    steps: Value
    whole: Value | None
    linear: Value | None


def lower_forecaster(making: Making, model: Forecaster) -> Program:
    return _recursive(making, model) if model.recursive else _direct(making, model)


def _direct(making: Making, model: Forecaster) -> Program:
    build = making.begin("forward")
    about = _prepare(build, model)
    hidden = build.last(decoder_graph(model.decoder).read(build, about.steps, {}).hidden)
    steps = _unfold(build, model, hidden, about.whole)
    steps = build.reshape(steps, (model.sizes.horizon, model.each))
    if model.from_known is not None:
        assert about.window.known is not None
        history = model.sizes.history
        future = build.slice(about.window.known, history, history + model.sizes.horizon, 0)
        steps = build.add(steps, dense(build, model.from_known, future))
    weights = build.constant(SPEED * model.mixture.weights)
    parts = About(about.simple, weights, about.linear, build.constant(model.offsets), about.scale)
    found, _ = _output(build, model, steps, parts)
    return Program({"forward": build.graph(quantiles=found)})


def _recursive(making: Making, model: Forecaster) -> Program:
    decoder = decoder_graph(model.decoder)
    build = making.begin("start")
    about = _prepare(build, model)
    after = decoder.start(build, None)
    history = _history(build, model, about)
    if history is not None:
        after |= decoder.read(build, history, after).state
    shared = {"simple": about.simple, "level": about.level, "scale": about.scale}
    shared |= {"future": _future(build, model, about)}
    shared |= {name: part for name, part in (("whole", about.whole), ("linear", about.linear)) if part is not None}
    last = build.reshape(build.slice(about.window.filled, model.sizes.history - 1, model.sizes.history), ())
    start = build.graph(**shared, **after, value=last)
    growing = decoder.growing()
    fixed = {name: value for name, value in after.items() if name not in {field.name for field in growing}}
    fields = [StateField(name, value.shape, shared=True) for name, value in shared.items()]
    fields += [StateField(name, value.shape) for name, value in fixed.items()]
    fields += [StateField("value", ()), *growing]
    return Program({"start": start, "step": _step(making, model, fields)}, tuple(fields))


def _step(making: Making, model: Forecaster, fields: list[StateField]) -> Graph:
    build = making.begin("step")
    number = build.input("step", (), "int")
    state: State = {field.name: build.input(field.name, field.shape) for field in fields}
    row = build.gather(state["future"], number)
    own = build.binary("div", build.binary("sub", state["value"], state["level"]), state["scale"])
    features = row.shape[0]
    assert isinstance(features, int)
    x = build.concat([build.reshape(own, (1,)), build.slice(row, 1, features)])
    found = decoder_graph(model.decoder).step(build, x, {name: state[name] for name in state if name in _own(fields)})
    steps = _unfold(build, model, found.hidden, state.get("whole"))
    weights = build.constant(SPEED * model.mixture.weights)
    linear = state.get("linear")
    parts = About(
        build.gather(state["simple"], number),
        build.gather(weights, number),
        None if linear is None else build.gather(linear, number),
        build.gather(build.constant(model.offsets), number),
        state["scale"],
    )
    quantiles, point = _output(build, model, steps, parts)
    after = {f"next_{name}": value for name, value in found.state.items()}
    return build.graph(quantiles=quantiles, **after, next_value=point)


def _own(fields: list[StateField]) -> set[str]:
    """The fields of the decoder."""
    return {field.name for field in fields if not field.shared and field.name != "value"}


class About(NamedTuple):
    """The inputs of the output of one step (), or of all (H), beside the corrections: simple forecasts (…, 6),
    weights of their mixture (…, 6), the linear map (…), offsets (…, Q) and the scale ()."""

    simple: Value
    weights: Value
    linear: Value | None
    offsets: Value
    scale: Value


def _prepare(build: Builder, model: Forecaster) -> Prepared:
    sizes, reads = model.sizes, model.reads
    window = read_window(build, model)
    simple = simple_forecasts(build, model, window)
    level, scale = normalise(build, window, sizes.history, reads)
    first = sizes.history - reads

    def standard(values: Value) -> Value:
        return build.binary("div", build.binary("sub", values, level), scale)

    places = torch.arange(first, sizes.history)
    season = build.gather(window.filled, build.constant((places - sizes.season).clamp(min=0)))
    read = standard(build.slice(window.filled, first, sizes.history))
    columns = [read, build.slice(window.seen, first, sizes.history), standard(season)]
    parts = [build.reshape(column, (reads, 1)) for column in columns]
    if window.past is not None:
        parts.append(build.slice(window.past, first, sizes.history, 0))
    if window.known is not None:
        parts.append(build.slice(window.known, first, sizes.history, 0))
    linear = None
    if model.linear is not None:
        linear = build.mul(scale, build.linear(read, model.linear.weight))
    return Prepared(window, level, scale, simple, build.concat(parts), _whole(build, model, window), linear)


def _whole(build: Builder, model: Forecaster, window: Window) -> Value | None:
    """The features of a whole series: static columns and its learned vector."""
    parts = [] if window.static is None else [window.static]
    if model.series is not None:
        assert window.series is not None
        parts.append(build.embed(window.series, model.series.weight))
    for number, vectors in enumerate(model.categories):
        assert window.categories is not None
        assert isinstance(vectors, torch.nn.Embedding)
        one = build.reshape(build.slice(window.categories, number, number + 1), ())
        parts.append(build.embed(one, vectors.weight))
    return build.concat(parts) if parts else None


def _history(build: Builder, model: Forecaster, about: Prepared) -> Value | None:
    """The features of the history for a recursive network (R - 1, F): each step reads the value before it."""
    reads, past = model.reads, model.sizes.past
    if reads == 1:
        return None
    features = about.steps.shape[1]
    assert isinstance(features, int)
    before, after = build.slice(about.steps, 0, reads - 1, 0), build.slice(about.steps, 1, reads, 0)
    spans = [(before, 0, 2), (after, 2, 3), (before, 3, 3 + past), (after, 3 + past, features)]
    return build.concat([build.slice(x, start, stop) for x, start, stop in spans if stop > start])


def _future(build: Builder, model: Forecaster, about: Prepared) -> Value:
    """The features of the horizon (H, F), whose first column each step replaces by the value before it."""
    horizon, history = model.sizes.horizon, model.sizes.history
    place = SIMPLE.index("seasonal")
    season = build.slice(about.simple, place, place + 1)
    season = build.binary("div", build.binary("sub", season, about.level), about.scale)
    ones = build.constant(torch.ones(horizon, 1))
    parts = [build.mul(season, build.number(0.0)), ones, season]
    if about.window.past is not None:
        last = build.slice(about.window.past, history - 1, history, 0)
        parts.append(build.mul(ones, last))
    if about.window.known is not None:
        parts.append(build.slice(about.window.known, history, history + horizon, 0))
    return build.concat(parts)


def _unfold(build: Builder, model: Forecaster, hidden: Value, whole: Value | None) -> Value:
    return dense(build, model.unfold, hidden if whole is None else build.concat([hidden, whole]))


def _output(build: Builder, model: Forecaster, steps: Value, about: About) -> tuple[Value, Value]:
    """steps (…, each) -> quantiles (…, Q) with their offsets, and the median before these (…)."""
    numbers = dense(build, model.correct, build.unary("gelu", steps))
    size = model.output.size
    raw, adjusted = build.slice(numbers, 0, size), build.slice(numbers, size, size + len(SIMPLE))
    shares = build.softmax(build.add(about.weights, adjusted))
    base = build.reduce("sum", build.mul(shares, about.simple), -1)
    if about.linear is not None:
        base = build.add(base, about.linear)
    found, point = quantiles_of(build, model.output, raw, base, about.scale)
    moved = build.add(found, build.mul(about.offsets, about.scale))
    return in_order(build, moved, model.levels.index(0.5)), point


def in_order(build: Builder, quantiles: Value, middle: int) -> Value:
    """Quantiles (…, Q); where they cross the median stays and the others are moved to their neighbour."""
    count = quantiles.shape[-1]
    assert isinstance(count, int)
    axis = len(quantiles.shape) - 1
    above = build.cumulate("max", build.slice(quantiles, middle, count), axis)
    if middle == 0:
        return above
    back = [build.slice(quantiles, place, place + 1) for place in range(middle, -1, -1)]
    lowest = build.unary("neg", build.cumulate("max", build.unary("neg", build.concat(back)), axis))
    below = [build.slice(lowest, place, place + 1) for place in range(middle, 0, -1)]
    return build.concat([*below, above])
