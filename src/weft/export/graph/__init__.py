"""Models as graphs of operations that any backend can write: see `weft.export.graph.graph`.

program = program_of(run)       the graphs of the model, with its weights
facts = host_facts(run)         what else a program needs that runs them
evaluate(graph, inputs)         the numbers of a graph in numpy, for one row
"""

from weft.export.graph.evaluate import evaluate
from weft.export.graph.facts import host_facts
from weft.export.graph.graph import OPERATIONS, Graph, Kind, Node, Program, Size, StateField, Value
from weft.export.graph.lower_model import program_of_model
from weft.export.graph.program import program_of

__all__ = [
    "OPERATIONS",
    "Graph",
    "Kind",
    "Node",
    "Program",
    "Size",
    "StateField",
    "Value",
    "evaluate",
    "host_facts",
    "program_of",
    "program_of_model",
]
