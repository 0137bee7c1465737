"""Finding text in what a model says: greedy, beam search, sampling, and exhaustive search as their oracle."""

from weft.decoding.config import DecodeConfig
from weft.decoding.exhaustive import search_exhaustive
from weft.decoding.hypothesis import Hypothesis
from weft.decoding.search import NEVER, search
from weft.models.stepper import Step, Stepper

__all__ = ["NEVER", "DecodeConfig", "Hypothesis", "Step", "Stepper", "search", "search_exhaustive"]
