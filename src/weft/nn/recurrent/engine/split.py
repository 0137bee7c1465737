"""Plan, first part: a traced step split by what each operation depends on.

    before   what depends on the input and the parameters only: computed once, for all time steps together
    body     what the next state needs: the loop over time
    after    what only the output needs, where it takes a matrix product or kernels cannot compute it in the loop:
             computed once, from what the loop leaves behind

`before` and `after` are ordinary torch code on (B * T, ...) rows, so autograd and torch.compile see through them.
All linear maps of one left side in `before` become one matrix product. A linear map of columns that come partly from
the input, such as that of cat(x, h), becomes one of the input, before the loop, and one of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from weft.nn.recurrent.engine.colours import (
    SLICING,
    ancestors,
    colours_of,
    is_product,
    is_rowwise,
    mentions_rows,
    shape_of,
)
from weft.nn.recurrent.engine.products import row_product
from weft.nn.recurrent.engine.torch_operations import POINTWISE
from weft.nn.recurrent.engine.trace import BatchSize, Trace, item

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Split:
    """The three graphs of a step.

    before(x (N, I), *parameters) -> hoisted values (N, ·), then constants (weights and vectors the loop reads), then
    what only `after` reads. body(*hoisted, *state, *constants, *source) -> emitted values, then the next state, for one
    time step; the source is what a step attends to. after(*emitted, *rest) -> the output; None where the one emitted
    value is the output.
    """

    before: fx.GraphModule
    body: fx.GraphModule
    after: fx.GraphModule | None
    hoisted: int
    state: int
    constants: int
    emitted: int
    consumable: tuple[bool, ...]
    """Whether a hoisted value is read by the loop alone, so that the loop may write over it."""
    bare: fx.GraphModule
    """`before` with the biases of hoisted products left to the loop, and given after everything else."""
    biased: tuple[int, ...]
    """The hoisted values whose bias that is."""
    source: int
    """The tensors of the source: keys, values, lengths; or none."""


def split(trace: Trace, *, output_behind: bool = False) -> Split:
    """Sort the operations of a rewritten step into before, body and after. With `output_behind` all that only the
    output needs goes behind the loop, products or not, where each row stands by itself."""
    colours = colours_of(trace)
    order = list(trace.graph.nodes)

    def depends(node: fx.Node) -> bool:
        return colours[node] == "loop"

    inside = ancestors(trace.after, depends)
    only_output = ancestors([trace.output], depends) - inside
    # One of several results is taken where they are made: only a tensor can leave the loop.
    taken = {node for node in only_output if node.target is item and node.all_input_nodes[0] not in only_output}
    only_output, inside = only_output - taken, inside | taken
    emitted = _leaving(order, only_output, colours)
    behind = output_behind or any(is_product(node) for node in only_output)
    if not behind or not emitted:
        emitted, only_output, inside = [trace.output], set(), inside | only_output

    reads = [used for node in order if node in inside - set(trace.state) for used in node.all_input_nodes]
    reads = _unique([*reads, *emitted, *trace.after])
    # Pointwise work costs less inside the loop's kernels than a pass of its own over memory.
    slices = ancestors(reads, lambda node: colours[node] != "loop" and _is_inline(node, colours))
    sources = [*reads, *(used for node in slices for used in node.all_input_nodes)]
    bases = _unique(node for node in sources if colours[node] == "input" and node not in slices)
    constants = _unique(
        used
        for node in order
        if node in inside | slices
        for used in node.all_input_nodes
        if colours[used] == "constant" and used not in slices
    )
    constants = _unique([*constants, *(node for node in (*emitted, *trace.after) if colours[node] == "constant")])
    body = _extract(
        [node for node in order if node in slices | inside - set(trace.state)],
        [*bases, *trace.state, *constants, *trace.source],
        [*emitted, *trace.after],
    )
    rest = [node for node in order if colours[node] != "loop" and any(user in only_output for user in node.users)]
    after = None
    if only_output:
        after = _extract([node for node in order if node in only_output], [*emitted, *rest], [trace.output])
    wanted = [*bases, *constants, *rest]
    needed = ancestors(wanted, lambda node: node.op == "call_function")
    before = _extract([node for node in order if node in needed], [trace.x, *trace.parameters.values()], wanted)
    consumable = tuple(is_product(base) and all(user in slices | inside for user in base.users) for base in bases)
    bare, biased = _without_biases(trace, bases, [*constants, *rest], colours)
    counts = len(bases), len(trace.state), len(constants), len(emitted)
    return Split(before, body, after, *counts, consumable, bare, biased, len(trace.source))


def _leaving(order: list[fx.Node], behind: set[fx.Node], colours: dict[fx.Node, str]) -> list[fx.Node]:
    """The values that the loop must emit for operations behind it; none where one of these does not work row by row on
    matrices."""
    if not all(is_rowwise(node, colours) for node in behind):
        return []
    used = _unique(used for node in order if node in behind for used in node.all_input_nodes)
    emitted = [node for node in used if colours[node] == "loop" and node not in behind]
    return emitted if all(len(shape_of(node)) == 2 for node in emitted) else []


def _without_biases(
    trace: Trace, bases: list[fx.Node], others: list[fx.Node], colours: dict[fx.Node, str]
) -> tuple[fx.GraphModule, tuple[int, ...]]:
    """Adding a bias may take a pass over the whole product; the loop adds it to what it has loaded anyway."""
    wanted, biases, biased = list(bases), [], []
    for number, base in enumerate(bases):
        if base.target is not aten.addmm.default or not is_product(base):
            continue
        bias = base.all_input_nodes[0]
        if len(shape_of(bias)) == 1 and colours[bias] == "constant":
            with trace.graph.inserting_after(base):
                wanted[number] = trace.graph.call_function(aten.mm.default, base.args[1:])
            biases.append(bias)
            biased.append(number)
    made = [node for node, base in zip(wanted, bases, strict=True) if node is not base]
    wanted += [*others, *biases]
    needed = ancestors(wanted, lambda node: node.op == "call_function")
    inputs = [trace.x, *trace.parameters.values()]
    bare = _extract([node for node in trace.graph.nodes if node in needed], inputs, wanted)
    for node in bare.graph.nodes:
        if node.target is aten.mm.default:
            node.target = row_product
    bare.recompile()
    for node in made:
        trace.graph.erase_node(node)
    return bare, tuple(biased)


def _is_inline(node: fx.Node, colours: dict[fx.Node, str]) -> bool:
    """Whether the loop's kernels may as well do it themselves: cuts, pointwise operations, numbers repeated."""
    if node.op != "call_function" or not node.all_input_nodes:
        return node.op == "call_function"
    return colours[node] == "input" and node.target in SLICING | POINTWISE and not _is_part(node)


def _is_part(node: fx.Node) -> bool:
    """Whether a value is one of the results of an operation that has several and is no cut into columns."""
    return node.target is item and node.all_input_nodes[0].target not in SLICING


def _extract(nodes: list[fx.Node], inputs: list[fx.Node], outputs: list[fx.Node]) -> fx.GraphModule:
    """A module of its own from some operations of the step."""
    graph = fx.Graph()
    env = {node: graph.placeholder(node.name) for node in inputs}
    rows: fx.Node | None = None
    for node in nodes:
        copied = graph.node_copy(node, lambda used: env[used])
        if mentions_rows(copied.args):
            with graph.inserting_before(copied):
                rows = rows or graph.call_function(aten.sym_size.int, (env[inputs[0]], 0))
            copied.args = _replace(copied.args, rows)
        env[node] = copied
    for node, copied in env.items():
        copied.meta.update(node.meta)
    graph.output(tuple(env[node] for node in outputs))
    return fx.GraphModule(nn.Module(), graph)


def _replace(argument: Any, rows: fx.Node) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(_replace(part, rows) for part in argument)
    return rows if isinstance(argument, BatchSize) else argument


def _unique(nodes: Iterable[fx.Node]) -> list[fx.Node]:
    return list(dict.fromkeys(nodes))
