"""Metrics that add up first and divide last, so that a score never depends on how rows were put into batches."""

from weft.metrics.calibration import Reliability, fit_temperature
from weft.metrics.confusion import Confusion
from weft.metrics.edits import count_edits, edit_distance
from weft.metrics.interval import ShareInterval, wilson
from weft.metrics.loss import LossTally, describe_vocabulary
from weft.metrics.many import ManyCounts
from weft.metrics.numbers import errors, spearman
from weft.metrics.scheme import SpanScheme
from weft.metrics.scores import ClassScore, shown
from weft.metrics.span import Span, SpanTally, looks_like_spans, spans
from weft.metrics.thresholds import Thresholds, choose_each, choose_thresholds
from weft.metrics.translation import TranslationTally

__all__ = [
    "ClassScore",
    "Confusion",
    "LossTally",
    "ManyCounts",
    "Reliability",
    "ShareInterval",
    "Span",
    "SpanScheme",
    "SpanTally",
    "Thresholds",
    "TranslationTally",
    "choose_each",
    "choose_thresholds",
    "count_edits",
    "describe_vocabulary",
    "edit_distance",
    "errors",
    "fit_temperature",
    "looks_like_spans",
    "shown",
    "spans",
    "spearman",
    "wilson",
]
