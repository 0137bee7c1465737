"""The lesson on vanishing gradients and the search for states: bodies of requests, and calls of `weft.inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from weft.errors import did_you_mean
from weft.serve import HTTPError
from weft.studio.views import describe

if TYPE_CHECKING:
    from weft.run import Run


class GradientLesson(BaseModel):
    """Fresh cells side by side: how far gradients reach back."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] = Field(default_factory=lambda: ["elman", "lstm", "gru"], min_length=1, max_length=6)
    length: int = Field(128, ge=2, le=512)
    hidden: int = Field(64, ge=2, le=256)
    radius: float | None = Field(None, ge=0.0, le=5.0)
    forget_bias: float | None = Field(None, ge=-10.0, le=10.0)
    seed: int = Field(0, ge=0, le=2**31)


class StateQuestion(BaseModel):
    """A search for units of a run that fire on some tokens."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=2_000_000)
    start: int | None = Field(None, ge=0)
    end: int | None = Field(None, ge=0)
    options: dict[str, Any] = Field(default_factory=dict, max_length=20)


def show_gradients(body: GradientLesson, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of the gradients of fresh cells, those of the user included."""
    from weft import inspect
    from weft.nn import CELLS

    gradients = getattr(inspect, "gradients", None)
    if gradients is None:
        raise HTTPError(501, "this version of weft has no view of gradients", cure="choose another view")
    known = {**CELLS, **own}
    for name in body.cells:
        if name not in known:
            raise HTTPError(400, f"{name!r:.60} is not a cell", cure=did_you_mean(name[:60], known))
    options = {"length": body.length, "hidden": body.hidden, "seed": body.seed}
    options |= {} if body.radius is None else {"radius": body.radius}  # type: ignore[dict-item]
    options |= {} if body.forget_bias is None else {"forget_bias": body.forget_bias}  # type: ignore[dict-item]
    cells = {name: known[name] for name in body.cells}
    return describe(gradients(cells=cells, **options))


def search_states(run: Run, body: StateQuestion) -> dict[str, Any]:
    """Return the units that fire where the question says."""
    del run, body
    raise HTTPError(501, "this version of weft has no search for states", cure="choose another view")
