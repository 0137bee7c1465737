"""Models as graphs of operations that any backend can write: see `weft.export.graph.graph`."""

from weft.export.graph.graph import OPERATIONS, Graph, Kind, Node, Program, Size, StateField, Value

__all__ = ["OPERATIONS", "Graph", "Kind", "Node", "Program", "Size", "StateField", "Value"]
