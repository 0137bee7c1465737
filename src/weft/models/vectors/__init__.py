"""Word vectors: skip-gram and CBOW with negative sampling."""

from weft.models.vectors.heldout import heldout_loss
from weft.models.vectors.model import WordVectors
from weft.models.vectors.queries import Neighbour, VectorTable, nearest, solve_analogies
from weft.models.vectors.settings import VECTORS, CbowSettings, SkipGramSettings, VectorSettings

__all__ = [
    "VECTORS",
    "CbowSettings",
    "Neighbour",
    "SkipGramSettings",
    "VectorSettings",
    "VectorTable",
    "WordVectors",
    "heldout_loss",
    "nearest",
    "solve_analogies",
]
