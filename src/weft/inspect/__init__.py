"""Views of what happens inside a model, and plain data about models and training examples, to be printed."""

from weft.inspect.attention_maps import Attention, attention
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.gradient_flow import FlowLine, GradientFlow, gradients, norm_shrinkage
from weft.inspect.learning_curves import LearningCurves, curves
from weft.inspect.parameter_counts import Part, PartRow, count_parameters
from weft.inspect.parameter_table import ParameterTable, parameters
from weft.inspect.position_codes import PositionCodes, positions
from weft.inspect.sketch import sketch
from weft.inspect.view import VIEWS, Nothing, Option, View, ViewKind, check_ending, view_kind

__all__ = [
    "FORMULAS",
    "VIEWS",
    "Attention",
    "FlowLine",
    "Formula",
    "GradientFlow",
    "LearningCurves",
    "Nothing",
    "Option",
    "ParameterTable",
    "Part",
    "PartRow",
    "PositionCodes",
    "View",
    "ViewKind",
    "attention",
    "check_ending",
    "count_parameters",
    "curves",
    "gradients",
    "norm_shrinkage",
    "parameters",
    "positions",
    "sketch",
    "view_kind",
]
