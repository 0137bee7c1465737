"""The kinds of tagger."""

from __future__ import annotations

from typing import Final

from weft.models.hmm import HiddenMarkovConfig
from weft.models.tagger import RecurrentTaggerConfig, TransformerTaggerConfig
from weft.settings import Settings

TAGGERS: Final[dict[str, type[Settings]]] = {
    "rnn": RecurrentTaggerConfig,
    "transformer": TransformerTaggerConfig,
    "hmm": HiddenMarkovConfig,
}
"""The settings of `[model]` for a tagger, by their `kind`."""
