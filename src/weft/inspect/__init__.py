"""Plain data about models and training examples, to be printed: parameters, formulas, fields, tokens, alignments."""

from weft.inspect.alignment import Alignment, align
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.parameters import Part, PartRow, count_parameters
from weft.inspect.sketch import sketch
from weft.inspect.view import VIEWS, Nothing, Option, View, ViewKind, check_ending, view_kind

__all__ = [
    "FORMULAS",
    "VIEWS",
    "Alignment",
    "Formula",
    "Nothing",
    "Option",
    "Part",
    "PartRow",
    "View",
    "ViewKind",
    "align",
    "check_ending",
    "count_parameters",
    "sketch",
    "view_kind",
]
