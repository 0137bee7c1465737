"""Models of counts in C: n-grams, hidden Markov models, bags of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch import nn

from weft.errors import ConfigError
from weft.export.c.model_source import Sources
from weft.models import Bag, NgramModel
from weft.models.hmm import HiddenMarkovModel
from weft.run import Run

COUNTED: Final[dict[type[nn.Module], Callable[[Run], Any] | None]] = {
    Bag: None,
    NgramModel: None,
    HiddenMarkovModel: None,
}
"""The function for each model."""


def counted_sources(run: Run) -> Sources:
    """The files of a run of counts."""
    raise ConfigError("is not written in C yet", where=f'model.kind = "{run.config.model.kind}"', cure="use --to arpa")
