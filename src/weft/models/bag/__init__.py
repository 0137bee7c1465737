"""A bag of n-grams with a linear layer: the classifier `kind = "bag"`, and the baseline of classification reports."""

from weft.models.bag.baseline import BagBaseline, fit_bag
from weft.models.bag.config import BagConfig, bag_defaults
from weft.models.bag.model import Bag

__all__ = ["Bag", "BagBaseline", "BagConfig", "bag_defaults", "fit_bag"]
