"""A traced step, rewritten before it is split.

Columns of a left side that come from the input get a product of their own, which leaves the loop; then all linear maps
of the same rows of the input become one product. What comes from the input and is spread over several columns of a
state, such as a gate of one column, is spread before the loop.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from weft.nn.recurrent.engine.colours import ancestors, colours_of, dimension_of, is_product, left_side, shape_of
from weft.nn.recurrent.engine.torch_operations import POINTWISE
from weft.nn.recurrent.engine.trace import Trace

aten = torch.ops.aten


def rewrite(trace: Trace) -> None:
    """All of it."""
    part_products(trace)
    merge_products(trace)
    spread_columns(trace)


def part_products(trace: Trace) -> None:
    """Give the columns of a left side that come from the input a product of their own, which leaves the loop."""
    colours = colours_of(trace)
    for node in list(trace.graph.nodes):
        if not is_product(node) or left_side(node).target is not aten.cat.default or dimension_of(left_side(node)) != 1:
            continue
        left, colour = left_side(node), colours[node.args[-1]]
        if colours[left] == "loop" and colour == "constant":
            _part(trace.graph, node, colours)


def _part(graph: fx.Graph, node: fx.Node, colours: dict[fx.Node, str]) -> None:
    """A product as the sum of those of neighbouring columns, what comes from the input first."""
    left, weight = left_side(node), node.args[-1]
    runs: list[tuple[bool, int, list[fx.Node]]] = []  # whether they leave the loop, their first column
    start = 0
    for part in left.args[0]:
        hoisted = colours[part] == "input"
        if not runs or runs[-1][0] != hoisted:
            runs.append((hoisted, start, []))
        runs[-1][2].append(part)
        start += shape_of(part)[1]
    if not any(hoisted for hoisted, _, _ in runs):
        return
    rows, width = shape_of(node)
    total: fx.Node | None = None
    with graph.inserting_before(node):

        def call(target: Any, args: tuple[Any, ...], shape: tuple[int, ...]) -> fx.Node:
            made = graph.call_function(target, args)
            made.meta.update({**left.meta, "shape": shape})
            return made

        for _, start, run in sorted(runs, key=lambda run: not run[0]):
            depth = sum(shape_of(part)[1] for part in run)
            columns = run[0] if len(run) == 1 else call(aten.cat.default, (run, 1), (rows, depth))
            matrix = call(aten.slice.Tensor, (weight, 0, start, start + depth), (depth, width))
            bias = node.args[:-2] if total is None else ()
            target = aten.addmm.default if bias else aten.mm.default
            product = call(target, (*bias, columns, matrix), (rows, width))
            total = product if total is None else call(aten.add.Tensor, (total, product), (rows, width))
    assert total is not None
    node.replace_all_uses_with(total)
    graph.erase_node(node)


def merge_products(trace: Trace) -> None:
    """Give all linear maps of the same rows of the input one matrix product, and each of them its columns of it."""
    colours = colours_of(trace)
    groups: dict[fx.Node, list[fx.Node]] = {}
    for node in trace.graph.nodes:
        if is_product(node) and colours[node] == "input":
            groups.setdefault(left_side(node), []).append(node)
    for left, nodes in groups.items():
        if len(nodes) > 1 and all(len(shape_of(node.all_input_nodes[0])) == 1 for node in nodes if len(node.args) == 3):
            _merge(trace.graph, left, nodes, colours)


def _merge(graph: fx.Graph, left: fx.Node, nodes: list[fx.Node], colours: dict[fx.Node, str]) -> None:
    needed = ancestors(
        [used for node in nodes for used in node.all_input_nodes], lambda node: node.op == "call_function"
    )
    last = [node for node in graph.nodes if node in needed]
    # The merged product may read nodes below the first of them; these are constant, so they can be moved up.
    first = nodes[0]
    for node in last:
        if colours[node] == "constant":
            first.prepend(node)
    with graph.inserting_before(first):
        right = graph.call_function(aten.cat.default, ([node.args[-1] for node in nodes], 1))
        widths = [shape_of(node)[1] for node in nodes]
        if any(len(node.args) == 3 for node in nodes):
            biases = [
                node.args[0]
                if len(node.args) == 3
                else graph.call_function(aten.new_zeros.default, (node.args[-1], [n]))
                for node, n in zip(nodes, widths, strict=True)
            ]
            bias = graph.call_function(aten.cat.default, (biases,))
            product = graph.call_function(aten.addmm.default, (bias, left, right))
        else:
            product = graph.call_function(aten.mm.default, (left, right))
        product.meta["shape"] = (shape_of(nodes[0])[0], sum(widths))
        start = 0
        for node, width in zip(nodes, widths, strict=True):
            part = graph.call_function(aten.slice.Tensor, (product, 1, start, start + width))
            part.meta["shape"] = shape_of(node)
            node.replace_all_uses_with(part)
            start += width
    for node in nodes:
        graph.erase_node(node)


def spread_columns(trace: Trace) -> None:
    """Give what comes from the input the columns of the value that it meets in the loop."""
    colours = colours_of(trace)
    for node in list(trace.graph.nodes):
        if colours[node] != "loop" or node.target not in POINTWISE:
            continue
        tail = shape_of(node)[1:]
        for used in node.all_input_nodes:
            mine = shape_of(used)
            if colours[used] != "input" or len(mine) != 1 + len(tail) or mine[1:] == tail:
                continue
            with trace.graph.inserting_before(node):
                spread = trace.graph.call_function(aten.expand.default, (used, [-1, *tail]))
            spread.meta.update({**used.meta, "shape": (mine[0], *tail)})
            node.replace_input_with(used, spread)
