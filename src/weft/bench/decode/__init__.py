"""`weft bench decode`: translation beside Hugging Face `generate` and CTranslate2, with the same weights."""

from weft.bench.decode.case import DecodeCase, installed, plan_decode, versions
from weft.bench.decode.measure import DecodeFigures, DecodeOutcome, measure_decode, tabulate_decode

__all__ = [
    "DecodeCase",
    "DecodeFigures",
    "DecodeOutcome",
    "installed",
    "measure_decode",
    "plan_decode",
    "tabulate_decode",
    "versions",
]
