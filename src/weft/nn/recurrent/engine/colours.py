"""What each operation of a traced step depends on, its colour.

constant   the parameters only
input      the input too
source     what the step attends to
loop       the state too; also what mixes rows, and what attends
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from weft.nn.recurrent.attending import attend_to
from weft.nn.recurrent.engine.trace import BatchSize, Trace, Untraceable, item

aten = torch.ops.aten

SLICING = {aten.split.Tensor, aten.split_with_sizes.default, aten.slice.Tensor, item}
RESHAPING = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.clone.default,
    aten.unsqueeze.default,
    aten.select.int,
    aten.unbind.int,
}
ALONG_COLUMNS = {
    aten.cat.default,
    aten.native_layer_norm.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.max.dim,
    aten.min.dim,
    aten.prod.dim_int,
    aten.var.correction,
    aten.std.correction,
    aten.logsumexp.default,
    aten.linalg_vector_norm.default,
    aten.cumsum.default,
    *([aten._fused_rms_norm.default] if hasattr(aten, "_fused_rms_norm") else ()),
}


def colours_of(trace: Trace) -> dict[fx.Node, str]:
    """constant (parameters only), input (the input too), source, or loop (the state too, mixes rows, or attends) for
    each node; raises Untraceable where a step computes with its source."""
    colours: dict[fx.Node, str] = {}
    for node in trace.graph.nodes:
        below = {colours[used] for used in node.all_input_nodes}
        if "source" in below and node.target is not attend_to:
            raise Untraceable("it computes with its source in every step: compute that before, once")
        if node is trace.x:
            colours[node] = "input"
        elif node in trace.source:
            colours[node] = "source"
        elif node in trace.state or "loop" in below or node.target is attend_to:
            colours[node] = "loop"
        elif "input" in below:
            colours[node] = "input" if is_rowwise(node, colours) else "loop"
        elif mentions_rows(node.args):  # a constant repeated for every row
            colours[node] = "input"
        else:
            colours[node] = "constant"
    return colours


def is_rowwise(node: fx.Node, colours: dict[fx.Node, str]) -> bool:
    """Whether an operation treats each row by itself, so that rows of all time steps may go through it together."""
    target, shape = node.target, shape_of(node)
    if is_product(node):
        return all(colours[used] == "constant" for used in node.all_input_nodes if used is not left_side(node))
    if target is item:
        return True
    if target in RESHAPING:
        return len(shape) == 0 or shape[0] == shape_of(node.all_input_nodes[0])[0]
    if target in SLICING or target in ALONG_COLUMNS:
        return dimension_of(node) not in (None, 0)
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags


def is_product(node: fx.Node) -> bool:
    """Whether an operation is a matrix product of rows with a matrix."""
    return node.target in (aten.mm.default, aten.addmm.default) and not node.kwargs


def left_side(node: fx.Node) -> Any:
    return node.args[1] if node.target is aten.addmm.default else node.args[0]


def dimension_of(node: fx.Node) -> int | None:
    """The one dimension along which an operation works, counted from the front."""
    schema = {argument.name: number for number, argument in enumerate(node.target._schema.arguments)}  # type: ignore[union-attr]
    if "normalized_shape" in schema:
        return 1 if len(node.args[1]) == 1 else None  # type: ignore[arg-type]
    number = schema["dim"]
    found = node.args[number] if number < len(node.args) else node.kwargs.get("dim", 0)
    if isinstance(found, (list, tuple)):
        found = found[0] if len(found) == 1 else None
    if not isinstance(found, int):
        return None
    return found if found >= 0 else found + len(shape_of(node.all_input_nodes[0]))


def shape_of(node: fx.Node) -> tuple[int, ...]:
    shape: tuple[int, ...] = node.meta.get("shape", ())
    return shape


def mentions_rows(argument: Any) -> bool:
    """Whether the arguments name the number of rows."""
    if isinstance(argument, (list, tuple)):
        return any(mentions_rows(part) for part in argument)
    return isinstance(argument, BatchSize)


def ancestors(nodes: Iterable[fx.Node], keep: Callable[[fx.Node], bool]) -> set[fx.Node]:
    """The nodes for which `keep` holds, reached from these through such nodes only."""
    found: set[fx.Node] = set()
    todo = [node for node in nodes if keep(node)]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [used for used in node.all_input_nodes if keep(used)]
    return found
