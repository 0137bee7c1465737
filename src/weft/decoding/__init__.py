"""Search for text with a model: greedy, beam search, sampling, constraints, and exhaustive search as a check."""

from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.exhaustive import search_exhaustive
from weft.decoding.hypothesis import Hypothesis
from weft.decoding.search import NEVER, NEVER_CONTINUED, search
from weft.decoding.stops import StopStrings
from weft.decoding.stream import stream
from weft.models.stepper import Step, Stepper

__all__ = [
    "NEVER",
    "NEVER_CONTINUED",
    "Constraint",
    "DecodeConfig",
    "Hypothesis",
    "Step",
    "Stepper",
    "StopStrings",
    "search",
    "search_exhaustive",
    "stream",
]
