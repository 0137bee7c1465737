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
    """Fresh cells side by side: how far gradients reach back. Numbers are checked by the options of the lesson."""

    model_config = ConfigDict(extra="forbid")

    cells: list[str] = Field(default_factory=lambda: ["elman", "lstm", "gru"], min_length=1, max_length=6)
    length: float | None = None
    hidden: float | None = None
    radius: float | None = None
    forget_bias: float | None = None
    seed: float | None = None


def show_gradients(body: GradientLesson, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of the gradients of fresh cells, those of the user included."""
    from weft.inspect import gradients
    from weft.inspect.gradient_flow import LESSON_OPTIONS
    from weft.nn import CELLS

    known = {**own, **{name: name for name in CELLS}}
    for name in body.cells:
        if name not in known:
            raise HTTPError(400, f"{name!r:.60} is not a cell", cure=did_you_mean(name[:60], known))
    given = {name: getattr(body, name) for name in LESSON_OPTIONS}
    options = {name: LESSON_OPTIONS[name].checked(name, value) for name, value in given.items() if value is not None}
    found = gradients([known[name] for name in body.cells], **options)
    words = ", ".join([repr(body.cells), *(f"{name}={value!r}" for name, value in options.items())])
    return describe(found.with_code(f"weft.inspect.gradients({words})"), question="Does learning reach the past?")


def describe_lesson() -> dict[str, Any]:
    """Return the options of the lesson, from which a page builds its sliders."""
    from weft.inspect.gradient_flow import LESSON_OPTIONS

    return {name: option._asdict() for name, option in LESSON_OPTIONS.items()}


def search_states(run: Run, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the units of a run that fire where the question says, over the texts that the page sent."""
    try:
        from weft.inspect.state_search import answer_search  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise HTTPError(501, "this version of weft has no search for states", cure="choose another view") from None
    return describe(answer_search(run, body))
