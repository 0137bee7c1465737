"""N-gram language models: counted, smoothed, and read from and written to ARPA files."""

from weft.models.ngram.arpa import SPECIAL_WORDS, Arpa, from_arpa_word, read_arpa, to_arpa_word, write_arpa
from weft.models.ngram.config import SMOOTHINGS, NgramConfig
from weft.models.ngram.model import NgramModel

__all__ = [
    "SMOOTHINGS",
    "SPECIAL_WORDS",
    "Arpa",
    "NgramConfig",
    "NgramModel",
    "from_arpa_word",
    "read_arpa",
    "to_arpa_word",
    "write_arpa",
]
