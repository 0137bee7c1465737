"""The kinds of tagger."""

from __future__ import annotations

from typing import Final

from weft.models.headed import HeadedKinds
from weft.models.hmm import HiddenMarkovConfig
from weft.models.tagger import RecurrentTaggerConfig, SpelledSettings, TransformerTaggerConfig

TAGGERS: Final = HeadedKinds(
    {"rnn": RecurrentTaggerConfig, "transformer": TransformerTaggerConfig, "hmm": HiddenMarkovConfig}, SpelledSettings
)
"""The settings of `[model]` for a tagger, by their `kind`."""
