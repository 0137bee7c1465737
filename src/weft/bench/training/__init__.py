"""`weft bench training`: whole updates of a translator beside Hugging Face transformers."""

from weft.bench.training.case import TrainingCase, plan_training, transformers_version
from weft.bench.training.measure import TrainingFigures, TrainingOutcome, measure_training, tabulate_training
from weft.bench.training.sentences import build_sentences

__all__ = [
    "TrainingCase",
    "TrainingFigures",
    "TrainingOutcome",
    "build_sentences",
    "measure_training",
    "plan_training",
    "tabulate_training",
    "transformers_version",
]
