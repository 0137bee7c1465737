"""From a model to plain data about it, for people and programs to look at."""

from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.parameters import Part, Row, count_parameters
from weft.inspect.sketch import sketch

__all__ = ["FORMULAS", "Formula", "Part", "Row", "count_parameters", "sketch"]
