"""Search for text with a model: greedy, beam search, sampling, constraints, and exhaustive search as a check."""

from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint
from weft.decoding.exhaustive import search_exhaustive
from weft.decoding.hypothesis import Hypothesis
from weft.decoding.search import NEVER, NEVER_CONTINUED, search
from weft.decoding.stops import StopStrings
from weft.decoding.stream import stream
from weft.decoding.trace import Proposal, SearchListener, SearchTrace, TracedStep
from weft.models.stepper import Step, Stepper

__all__ = [
    "NEVER",
    "NEVER_CONTINUED",
    "Constraint",
    "DecodeConfig",
    "Hypothesis",
    "Proposal",
    "SearchListener",
    "SearchTrace",
    "Step",
    "Stepper",
    "StopStrings",
    "TracedStep",
    "search",
    "search_exhaustive",
    "stream",
]
