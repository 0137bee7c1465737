"""One page per task: records → batch → loss → predictions → metrics."""

from weft.tasks.caption import Caption
from weft.tasks.classify import Classification, Classify, ManyClassification
from weft.tasks.embed import Embed, Neighbours
from weft.tasks.encoding import encode, encode_evaluation
from weft.tasks.filling import Filled
from weft.tasks.forecast import Forecast
from weft.tasks.forecast_answer import SeriesForecast
from weft.tasks.generation import Candidate, Generation
from weft.tasks.lm import LanguageModelling
from weft.tasks.mask import Mask
from weft.tasks.records import Division
from weft.tasks.regress import Regress, Regression
from weft.tasks.results import Prediction, Scores
from weft.tasks.sections import DataConfig, Facts, Sections, Tree
from weft.tasks.tag import Tag
from weft.tasks.tags import Tagging
from weft.tasks.task import Batch, Codec, Loss, Task
from weft.tasks.translate import Translate

TASKS: dict[str, type[Task]] = {
    "caption": Caption,
    "classify": Classify,
    "embed": Embed,
    "forecast": Forecast,
    "lm": LanguageModelling,
    "mask": Mask,
    "regress": Regress,
    "tag": Tag,
    "translate": Translate,
}

__all__ = [
    "TASKS",
    "Batch",
    "Candidate",
    "Caption",
    "Classification",
    "Classify",
    "Codec",
    "DataConfig",
    "Division",
    "Embed",
    "Facts",
    "Filled",
    "Forecast",
    "Generation",
    "LanguageModelling",
    "Loss",
    "ManyClassification",
    "Mask",
    "Neighbours",
    "Prediction",
    "Regress",
    "Regression",
    "Scores",
    "Sections",
    "SeriesForecast",
    "Tag",
    "Tagging",
    "Task",
    "Translate",
    "Tree",
    "encode",
    "encode_evaluation",
]
