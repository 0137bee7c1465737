"""Word vectors: skip-gram and CBOW with negative sampling."""

from weft.models.vectors.model import VECTORS, CbowSettings, SkipGramSettings, VectorSettings, WordVectors

__all__ = ["VECTORS", "CbowSettings", "SkipGramSettings", "VectorSettings", "WordVectors"]
