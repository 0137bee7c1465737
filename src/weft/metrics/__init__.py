"""Metrics that add up first and divide last, so that a score never depends on how rows were put into batches."""

from weft.metrics.confusion import Confusion
from weft.metrics.loss import LossTally, describe_vocabulary
from weft.metrics.scores import ClassScore
from weft.metrics.span import Span, SpanTally, looks_like_spans, spans
from weft.metrics.translation import TranslationTally

__all__ = [
    "ClassScore",
    "Confusion",
    "LossTally",
    "Span",
    "SpanTally",
    "TranslationTally",
    "describe_vocabulary",
    "looks_like_spans",
    "spans",
]
