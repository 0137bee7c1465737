"""The view `positions`: how a model encodes places, as a heat map, as similarities, and by distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text
from torch import Tensor, nn

from weft import limits
from weft.charts import MAGNITUDE, SIGNED, Table, column_data
from weft.errors import ConfigError, did_you_mean
from weft.inspect.terminal import heat_lines, scale_line
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.models.memory import stacks_of
from weft.models.placed import Placed
from weft.nn import POSITIONS, MultiHeadAttention
from weft.nn.attention import Rotary
from weft.run import Run

MAX_LENGTH: Final = 2048
"""Positions that are compared with each other."""

MAX_CHART_SIDE: Final = 128
"""Positions and dimensions in a chart; of more, every second, third … is drawn."""

MAX_DATA_CELLS: Final = 160_000
"""Numbers of a table in `to_dict`; a larger one is thinned like the chart."""

Similarity = Literal["cosine", "dot"]


@dataclass(frozen=True)
class PositionCodes(View):
    """The codes of positions (T, D), the similarity of each two (T, T), and its mean by distance (T).

    The codes of rotary positions are the angles by which they turn queries and keys.
    """

    kind: str
    part: str
    """The part of the model, "" for a kind alone."""
    codes: NDArray[np.float32] = field(repr=False)
    similarity: NDArray[np.float32] = field(repr=False)
    decay: NDArray[np.float32] = field(repr=False)
    measure: Similarity

    name: ClassVar[str] = "positions"
    equation: ClassVar[str] = (
        "sinusoid  PE(t, 2i) = sin(t / 10000^(2i/d))    PE(t, 2i+1) = cos(t / 10000^(2i/d))    x + PE(t)\n"
        "learned   x + p_t        joint  W1 tanh(W2 x + W3 e_t + b), of which W3 e_t is shown\n"
        "concat    [x; s_t]       onehot [x; e_t]\n"
        "rotary    pair i is turned by the angle t ω_i, ω_i = 10000^(-2i/m); q·k of two equal vectors at distance n\n"
        "          is their length² times the mean of cos(n ω_i)"
    )

    @property
    def title(self) -> str:
        return f"Positions: {self.kind}{f' ({self.part})' if self.part else ''}"

    @property
    def summary(self) -> str:
        what = "the angles, from -π to π, by which it turns the pairs of a query" if self.is_rotary else "its vector"
        return (
            f"Each row of the first map is a position with {what}. The second map compares each two positions, and the "
            "curve is the mean over all pairs at one distance: it shows whether the model can tell near from far."
        )

    @property
    def is_rotary(self) -> bool:
        return self.kind == "rotary"

    def to_dict(self) -> dict[str, Any]:
        every = 1 if max(self.codes.size, self.similarity.size) <= MAX_DATA_CELLS else _every(len(self.codes))
        return {
            "view": self.name,
            "kind": self.kind,
            "part": self.part,
            "measure": self.measure,
            "every": every,
            "codes": _numbers(self.codes[::every]),
            "similarity": _numbers(self.similarity[::every, ::every]),
            "decay": _numbers(self.decay),
        }

    def chart(self) -> Any:
        import altair as alt

        rows, columns = _every(len(self.codes)), _every(self.codes.shape[1])
        top = float(np.abs(self.codes).max()) or 1.0
        codes = _heat(
            self.codes, (rows, columns), ("dimension", "position"), alt.Scale(scheme=SIGNED, domain=[-top, top])
        )
        low, high = float(self.similarity.min()), float(self.similarity.max())
        signed = low < 0
        scale = alt.Scale(scheme=SIGNED if signed else MAGNITUDE, domain=[-high, high] if signed else [0, high])
        alike = _heat(self.similarity, (rows, rows), ("position", "other position"), scale)
        decay: dict[str, list[Any]] = {
            "distance": list(range(len(self.decay))),
            "similarity": [_short(value) for value in self.decay.tolist()],
        }
        line = (
            alt.Chart(column_data(decay))
            .mark_line()
            .encode(
                x=alt.X("distance:Q", title="distance", axis=alt.Axis(tickCount=6)),
                y=alt.Y("similarity:Q", title=f"mean similarity ({self.measure})"),
                tooltip=["distance:Q", "similarity:Q"],
            )
            .properties(width=320, height=200, title="by distance")
        )
        first = "angle of each pair" if self.is_rotary else "code of each position"
        maps = alt.hconcat(codes.properties(title=first), alike.properties(title="similarity"), spacing=40)
        return alt.vconcat(maps.resolve_scale(color="independent"), line, spacing=30)

    def table(self) -> Table:
        first = min(8, self.codes.shape[1])
        rows = [
            (place, *(float(value) for value in code[:first]), float(self.decay[place]))
            for place, code in enumerate(self.codes)
        ]
        return Table(("position", *(f"dimension {i}" for i in range(first)), "similarity at this distance"), rows)

    def lines(self, width: int) -> list[Text]:
        rows, columns = _every(len(self.codes), 32), _every(self.codes.shape[1], max(8, width - 12))
        shown = self.codes[::rows, ::columns]
        low, high = float(shown.min()), float(shown.max())
        shares = ((shown - low) / max(high - low, 1e-12)).tolist()
        names = [str(place) for place in range(0, len(self.codes), rows)]
        found = heat_lines(shares, names, [""] * len(shares[0]), width=width, each=1)[-len(names) :]
        near = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if n < len(self.decay)]
        decays = ", ".join(f"{n}: {self.decay[n]:.2f}" for n in near)
        sizes = f"{len(self.codes)} positions × {self.codes.shape[1]} dimensions"
        head = f"{self.title}: {sizes}, from {low:.2f} to {high:.2f}"
        scale = scale_line(f"{low:.2f}", f"{high:.2f}")
        return [Text(head), *found, scale, Text(f"Mean similarity ({self.measure}) by distance: {decays}")]


class _Found(NamedTuple):
    kind: str
    part: str
    codes: Tensor
    rotary: Rotary | None


def positions(
    run: Run | nn.Module | str,
    *,
    width: int = 64,
    length: int = 100,
    part: str = "auto",
    similarity: Similarity = "cosine",
) -> PositionCodes | Nothing:
    """Show the encoding of positions of a run or model, or of a kind by its name ("sinusoid") and its `width`."""
    if isinstance(run, str):
        found: _Found | Nothing = _of_kind(run, width, length)
    else:
        found = _of_model(run.model if isinstance(run, Run) else run, part, length)
    if isinstance(found, Nothing):
        return found
    codes = found.codes.detach().float().cpu()
    places = torch.arange(len(codes))
    if found.rotary is not None:
        alike = _turned(found.rotary, places)
    elif similarity == "dot":
        alike = codes @ codes.T
    else:
        unit = nn.functional.normalize(codes, dim=-1)
        alike = unit @ unit.T
    decay = torch.stack([alike.diagonal(distance).mean() for distance in range(len(codes))])
    measure: Similarity = "cosine" if found.rotary is not None else similarity
    return PositionCodes(found.kind, found.part, codes.numpy(), alike.numpy(), decay.numpy(), measure)


def _of_kind(kind: str, width: int, length: int) -> _Found | Nothing:
    if kind not in POSITIONS:
        raise ConfigError(f'"{kind}" is not a kind of positions', where="positions", cure=did_you_mean(kind, POSITIONS))
    places = torch.arange(length)
    if kind == "rotary":
        rotary = Rotary(width)
        return _Found(kind, "", _angles(rotary, places), rotary)
    codes = POSITIONS[kind](width, length).codes(places)
    return (
        Nothing("positions", f'positions = "{kind}" encodes none') if codes is None else _Found(kind, "", codes, None)
    )


def _of_model(model: nn.Module, part: str, length: int) -> _Found | Nothing:
    """The positions of the encoder or the decoder of a model, or of the first part that has some."""
    stacks: dict[str, nn.Module] = {name: stack for name, stack in stacks_of(model).items() if part in ("auto", name)}
    if not stacks and part != "auto":
        have = " or ".join(stacks_of(model)) or "auto"
        raise ConfigError("is no part of this model", where=f'part = "{part}"', cure=f"choose {have}")
    for name, stack in (stacks or {"": model}).items():
        rotary = next(
            (one.rotary for one in stack.modules() if isinstance(one, MultiHeadAttention) and one.rotary is not None),
            None,
        )
        if rotary is not None:
            return _Found("rotary", name, _angles(rotary, torch.arange(length)), rotary)
        for placed in stack.modules():
            if not isinstance(placed, Placed):
                continue
            device = next(stack.parameters()).device
            codes = placed.positions.codes(torch.arange(min(length, placed.longest or length), device=device))
            if codes is not None:
                kinds = {cls: kind for kind, cls in POSITIONS.items()}
                return _Found(kinds.get(type(placed.positions), type(placed.positions).__name__), name, codes, None)
    reason = (
        "layers that read one token after the other need none, and a model that counts words does not see their order"
    )
    return Nothing("positions", f"this model encodes no positions; {reason}")


def _angles(rotary: Rotary, places: Tensor) -> Tensor:
    """places (T) -> the angle of each pair (T, m/2), from -π to π."""
    cosine, sine = rotary.angles(places)
    return torch.atan2(sine, cosine)


def _turned(rotary: Rotary, places: Tensor) -> Tensor:
    """The mean over pairs of cos((t - s) ω_i) (T, T): the product of two equal vectors at t and s, over its largest."""
    cosine, _ = rotary.angles((places[:, None] - places).abs())
    return cosine.mean(-1)


def _heat(values: NDArray[Any], every: tuple[int, int], names: tuple[str, str], scale: Any) -> Any:
    """A heat map of every so many rows and columns."""
    import altair as alt

    shown = values[:: every[0], :: every[1]]
    rows, columns = (np.arange(0, size, step) for size, step in zip(values.shape, every, strict=True))
    data = {
        "x": np.tile(columns, len(rows)).tolist(),
        "y": np.repeat(rows, len(columns)).tolist(),
        "value": [_short(value) for value in shown.reshape(-1).tolist()],
    }
    label: dict[str, Any] = {"labelAngle": 0, "ticks": False, "domain": False}
    return (
        alt.Chart(column_data(data))
        .mark_rect()
        .encode(
            x=alt.X("x:O", title=names[0], axis=alt.Axis(values=_round_ticks(columns), **label)),
            y=alt.Y("y:O", title=names[1], axis=alt.Axis(values=_round_ticks(rows), **label)),
            color=alt.Color("value:Q", title=None, scale=scale),
            tooltip=[alt.Tooltip("x:O", title=names[0]), alt.Tooltip("y:O", title=names[1]), "value:Q"],
        )
        .properties(width=_side_pixels(len(columns)), height=_side_pixels(len(rows)))
    )


def _side_pixels(cells: int) -> int:
    return max(200, cells * (4 if cells <= 80 else 3))


def _round_ticks(shown: NDArray[Any]) -> list[int]:
    """Return every fifth, tenth, twentieth … of the numbers on an axis, so that about ten have a label."""
    last = int(shown[-1])
    step = next(step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if last <= 11 * step)
    return [int(number) for number in shown if number % step == 0]


def _every(count: int, most: int = MAX_CHART_SIDE) -> int:
    return max(1, math.ceil(count / most))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _numbers(values: NDArray[Any]) -> Any:
    return np.round(values.astype(np.float64), 6).tolist()


KIND = ViewKind(
    "positions",
    "How does it know where?",
    positions,
    takes_text=False,
    options={
        "length": Option("int", 100, "positions", 2, MAX_LENGTH),
        "width": Option("int", 64, "features, of a kind alone", 2, limits.SIZE, of_runs=False),
        "part": Option("choice", "auto", "part", choices=("auto", "encoder", "decoder")),
        "similarity": Option("choice", "cosine", "similarity", choices=("cosine", "dot")),
    },
)
