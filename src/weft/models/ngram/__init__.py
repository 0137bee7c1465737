"""N-gram language models: counted, smoothed, and read from and written to ARPA files."""

from weft.models.ngram.arpa import Arpa, read_arpa, write_arpa
from weft.models.ngram.config import SMOOTHINGS, NgramConfig
from weft.models.ngram.model import NgramModel

__all__ = ["SMOOTHINGS", "Arpa", "NgramConfig", "NgramModel", "read_arpa", "write_arpa"]
