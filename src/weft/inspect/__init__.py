"""Plain data about models and training examples, to be printed: parameters, formulas, fields, tokens."""

from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.parameters import Part, PartRow, count_parameters
from weft.inspect.sketch import sketch

__all__ = ["FORMULAS", "Formula", "Part", "PartRow", "count_parameters", "sketch"]
