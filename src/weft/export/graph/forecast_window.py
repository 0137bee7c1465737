"""A window of a series in a graph: its inputs, gaps, level and scale, and simple forecasts of it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.models.forecaster import MIN_SCALE, Forecaster


class Window(NamedTuple):
    """filled (L) without gaps, observed (L) as bool, seen (L) the same as 0 and 1, and the other inputs."""

    filled: Value
    observed: Value
    seen: Value
    past: Value | None
    known: Value | None
    series: Value | None
    static: Value | None
    categories: Value | None


def read_window(build: Builder, model: Forecaster) -> Window:
    """The inputs, and the target with the value before each gap, or the first one after it."""
    sizes = model.sizes
    length = sizes.history
    target, observed = build.input("target", (length,)), build.input("observed", (length,), "bool")
    places = build.constant(torch.arange(length))
    later = build.where(observed, places, build.whole(length - 1))
    first = least(build, later)
    before = build.cumulate("max", build.where(observed, places, build.whole(0)), 0)
    filled = build.gather(target, build.binary("maximum", before, first))
    return Window(
        filled,
        observed,
        build.cast(observed, "float"),
        build.input("past", (length, sizes.past)) if sizes.past else None,
        build.input("known", (length + sizes.horizon, sizes.known)) if sizes.known else None,
        build.input("series", (), "int") if model.series is not None else None,
        build.input("static", (sizes.static,)) if sizes.static else None,
        build.input("categories", (len(sizes.categories),), "int") if sizes.categories else None,
    )


def least(build: Builder, x: Value) -> Value:
    """The least of x (T)."""
    return build.unary("neg", build.reduce("max", build.unary("neg", x), 0))


def normalise(build: Builder, window: Window, length: int, reads: int) -> tuple[Value, Value]:
    """The level and scale of the last steps, which the network reads."""
    read, seen = (build.slice(x, length - reads, length) for x in (window.filled, window.seen))
    count = build.binary("maximum", build.reduce("sum", seen, 0), build.number(1.0))
    level = build.binary("div", build.reduce("sum", build.mul(read, seen), 0), count)
    distance = build.binary("sub", read, level)
    squares = build.reduce("sum", build.mul(build.mul(distance, distance), seen), 0)
    scale = build.unary("sqrt", build.binary("div", squares, count))
    return level, build.binary("maximum", scale, build.number(MIN_SCALE))


def simple_forecasts(build: Builder, model: Forecaster, window: Window) -> Value:
    """The simple forecasts (H, 6), in the order of `SIMPLE`."""
    length, horizon = model.sizes.history, model.sizes.horizon
    m = model.sizes.season if model.sizes.season <= length else 1
    seasons = length // m
    last = build.reshape(build.slice(window.filled, length - 1, length), ())
    own, seen = (build.slice(x, length - seasons * m, length) for x in (window.filled, window.seen))
    every = mean_of(build, own, seen, last)
    own, seen = (build.reshape(x, (seasons, m)) for x in (own, seen))

    def row(x: Value, place: int) -> Value:
        return build.reshape(build.slice(x, place, place + 1, 0), (m,))

    seasonal = row(own, seasons - 1)
    profile = mean_of(build, own, seen, seasonal)
    mean = mean_of(build, seasonal, row(seen, seasons - 1), last)
    ahead = torch.arange(horizon)
    phase = build.constant(ahead % m)
    if m == 1:
        mean = every
        shifted = drift(build, window, last, length, ahead)
    else:
        before = mean_of(build, row(own, seasons - 2), row(seen, seasons - 2), mean) if seasons > 1 else mean
        change = build.binary("sub", mean, before)
        ahead_seasons = build.constant((ahead // m + 1).to(torch.float32))
        shifted = build.add(build.gather(seasonal, phase), build.mul(change, ahead_seasons))
    phased = build.gather(profile, phase)
    level = build.add(phased, build.binary("sub", mean, every))
    nothing = build.constant(torch.zeros(horizon))
    columns = [
        build.add(nothing, last),
        build.gather(seasonal, phase),
        phased,
        build.add(nothing, mean),
        shifted,
        level,
    ]
    return build.concat([build.reshape(column, (horizon, 1)) for column in columns])


def drift(build: Builder, window: Window, last: Value, length: int, ahead: torch.Tensor) -> Value:
    """A line from the first observed value to the last (H)."""
    places = build.constant(torch.arange(length))
    first = least(build, build.where(window.observed, places, build.whole(length)))
    first = build.binary("minimum", first, build.whole(length - 1))
    steps = build.binary("maximum", build.binary("sub", build.whole(length - 1), first), build.whole(1))
    rise = build.binary("sub", last, build.gather(window.filled, first))
    slope = build.binary("div", rise, build.cast(steps, "float"))
    return build.add(last, build.mul(slope, build.constant((ahead + 1).to(torch.float32))))


def mean_of(build: Builder, values: Value, seen: Value, otherwise: Value) -> Value:
    """The mean of the observed values over the first axis; `otherwise` where there are none."""
    count = build.reduce("sum", seen, 0)
    total = build.reduce("sum", build.mul(values, seen), 0)
    mean = build.binary("div", total, build.binary("maximum", count, build.number(1.0)))
    return build.where(build.binary("gt", count, build.number(0.0)), mean, otherwise)
