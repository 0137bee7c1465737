"""Greedy search: the likeliest token every time. A beam of 1, by test, without the beam's bookkeeping."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.decoding.follow import follow
from weft.decoding.request import Request
from weft.decoding.trail import End, Trail
from weft.models.stepper import Stepper


def search_greedy(model: Stepper, memory: Any, request: Request) -> tuple[Trail, list[End]]:
    """One text for each sentence."""
    return follow(model, memory, request, choose=_likeliest)


def _likeliest(log_probabilities: Tensor, _texts: Tensor, _lengths: Tensor) -> Tensor:
    return log_probabilities.argmax(-1)
