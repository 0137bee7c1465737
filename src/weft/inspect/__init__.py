"""Views of what happens inside a model, and plain data about models and training examples, to be printed."""

from weft.inspect.attention_maps import Attention, attention
from weft.inspect.beam_tree import BeamTree, beam
from weft.inspect.embedding_map import EmbeddingMap, MapPoint, neighbours
from weft.inspect.formulas import FORMULAS, Formula
from weft.inspect.gate_values import GateValues, gates
from weft.inspect.gradient_flow import FlowLine, GradientFlow, gradients, norm_shrinkage
from weft.inspect.learning_curves import LearningCurves, curves
from weft.inspect.parameter_counts import Part, PartRow, count_parameters
from weft.inspect.parameter_table import ParameterTable, parameters
from weft.inspect.position_codes import PositionCodes, positions
from weft.inspect.recurrent_trace import LayerPass, forget_products, record_layers
from weft.inspect.search_tree import Leaf, SearchTree, TreeNode
from weft.inspect.sketch import sketch
from weft.inspect.state_search import StateSearch, answer_search, search_states
from weft.inspect.token_ranks import RankedToken, TokenRanks, ranks
from weft.inspect.unit_states import UnitStates, states
from weft.inspect.view import VIEWS, Nothing, Option, View, ViewKind, check_ending, view_kind

__all__ = [
    "FORMULAS",
    "VIEWS",
    "Attention",
    "BeamTree",
    "EmbeddingMap",
    "FlowLine",
    "Formula",
    "GateValues",
    "GradientFlow",
    "LayerPass",
    "Leaf",
    "LearningCurves",
    "MapPoint",
    "Nothing",
    "Option",
    "ParameterTable",
    "Part",
    "PartRow",
    "PositionCodes",
    "RankedToken",
    "SearchTree",
    "StateSearch",
    "TokenRanks",
    "TreeNode",
    "UnitStates",
    "View",
    "ViewKind",
    "answer_search",
    "attention",
    "beam",
    "check_ending",
    "count_parameters",
    "curves",
    "forget_products",
    "gates",
    "gradients",
    "neighbours",
    "norm_shrinkage",
    "parameters",
    "positions",
    "ranks",
    "record_layers",
    "search_states",
    "sketch",
    "states",
    "view_kind",
]
