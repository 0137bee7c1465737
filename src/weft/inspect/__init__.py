"""Plain data about models and training examples, to be printed: parameters, formulas, fields, tokens, alignments."""

from weft.inspect.alignment import Alignment, align
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.parameters import Part, PartRow, count_parameters
from weft.inspect.sketch import sketch

__all__ = ["FORMULAS", "Alignment", "Formula", "Part", "PartRow", "align", "count_parameters", "sketch"]
