"""Plain data about models and training examples, to be printed: parameters, formulas, fields, tokens, alignments."""

from weft.inspect.alignment import Alignment, align
from weft.inspect.beam_tree import BeamTree, beam
from weft.inspect.embedding_map import EmbeddingMap, MapPoint, neighbours
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.gradient_flow import FlowLine, GradientFlow, gradients, norm_shrinkage
from weft.inspect.learning_curves import LearningCurves, curves
from weft.inspect.parameter_counts import Part, PartRow, count_parameters
from weft.inspect.parameter_table import ParameterTable, parameters
from weft.inspect.search_tree import Leaf, SearchTree, TreeNode
from weft.inspect.sketch import sketch
from weft.inspect.token_ranks import RankedToken, TokenRanks, ranks
from weft.inspect.view import VIEWS, Nothing, Option, View, ViewKind, check_ending, view_kind

__all__ = [
    "FORMULAS",
    "VIEWS",
    "Alignment",
    "BeamTree",
    "EmbeddingMap",
    "FlowLine",
    "Formula",
    "GradientFlow",
    "Leaf",
    "LearningCurves",
    "MapPoint",
    "Nothing",
    "Option",
    "ParameterTable",
    "Part",
    "PartRow",
    "RankedToken",
    "SearchTree",
    "TokenRanks",
    "TreeNode",
    "View",
    "ViewKind",
    "align",
    "beam",
    "check_ending",
    "count_parameters",
    "curves",
    "gradients",
    "neighbours",
    "norm_shrinkage",
    "parameters",
    "ranks",
    "sketch",
    "view_kind",
]
