"""Plain data about models and training examples, to be printed: parameters, formulas, fields, tokens, alignments."""

from weft.inspect.alignment import Alignment, align
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.gradient_flow import FlowLine, GradientFlow, gradients, norm_shrinkage
from weft.inspect.learning_curves import LearningCurves, curves
from weft.inspect.parameter_counts import Part, PartRow, count_parameters
from weft.inspect.parameter_table import ParameterTable, parameters
from weft.inspect.sketch import sketch
from weft.inspect.view import VIEWS, Nothing, Option, View, ViewKind, check_ending, view_kind

__all__ = [
    "FORMULAS",
    "VIEWS",
    "Alignment",
    "FlowLine",
    "Formula",
    "GradientFlow",
    "LearningCurves",
    "Nothing",
    "Option",
    "ParameterTable",
    "Part",
    "PartRow",
    "View",
    "ViewKind",
    "align",
    "check_ending",
    "count_parameters",
    "curves",
    "gradients",
    "norm_shrinkage",
    "parameters",
    "sketch",
    "view_kind",
]
