"""A bag of n-grams with a linear layer: the classifier and regressor `kind = "bag"`, and their baseline."""

from weft.models.bag.baseline import BagBaseline, fit_bag, fit_many_bag, fit_number_bag
from weft.models.bag.config import BagConfig, BagRegressorConfig, BagSettings, bag_defaults
from weft.models.bag.model import Bag

__all__ = [
    "Bag",
    "BagBaseline",
    "BagConfig",
    "BagRegressorConfig",
    "BagSettings",
    "bag_defaults",
    "fit_bag",
    "fit_many_bag",
    "fit_number_bag",
]
