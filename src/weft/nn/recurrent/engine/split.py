"""Plan, first part: a traced step split by what each operation depends on.

    before   what depends on the input and the parameters only: computed once, for all time steps together
    body     what the next state needs: the loop over time
    after    what only the output needs and takes a matrix product: computed once, from what the loop leaves behind

`before` and `after` are ordinary torch code on (B * T, ...) rows, so autograd and torch.compile see through them.
All linear maps of one left side in `before` become one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from weft.nn.recurrent.engine.products import row_product
from weft.nn.recurrent.engine.torch_operations import POINTWISE
from weft.nn.recurrent.engine.trace import Batch, Trace, item

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
}


@dataclass(frozen=True, eq=False)
class Split:
    """The three graphs of a step.

    before(x (N, I), *parameters) -> hoisted values (N, ·), then constants (weights and vectors the loop reads), then
    what only `after` reads. body(*hoisted, *state, *constants) -> emitted values, then the next state, for one time
    step. after(*emitted, *rest) -> the output; None where the one emitted value is the output.
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


def split(trace: Trace) -> Split:
    """Sort the operations of a step into before, body and after."""
    _merge_products(trace)
    colours = _colours(trace)
    order = list(trace.graph.nodes)

    def depends(node: fx.Node) -> bool:
        return colours[node] == "loop"

    inside = _ancestors(trace.after, depends)
    only_output = _ancestors([trace.output], depends) - inside
    products = [node for node in only_output if is_product(node)]
    if products and all(_rowwise(node, colours) for node in only_output):
        emitted = _unique(
            used for node in order if node in only_output for used in node.all_input_nodes if depends(used)
        )
        emitted = [node for node in emitted if node not in only_output]
    else:
        emitted, only_output, inside = [trace.output], set(), inside | only_output

    reads = [used for node in order if node in inside - set(trace.state) for used in node.all_input_nodes]
    reads = _unique([*reads, *emitted, *trace.after])
    # Pointwise work costs less inside the loop's kernels than a pass of its own over memory.
    slices = _ancestors(reads, lambda node: colours[node] != "loop" and _is_inline(node, colours))
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
        [*bases, *trace.state, *constants],
        [*emitted, *trace.after],
    )
    rest = [node for node in order if colours[node] != "loop" and any(user in only_output for user in node.users)]
    after = None
    if only_output:
        after = _extract([node for node in order if node in only_output], [*emitted, *rest], [trace.output])
    wanted = [*bases, *constants, *rest]
    needed = _ancestors(wanted, lambda node: node.op == "call_function")
    before = _extract([node for node in order if node in needed], [trace.x, *trace.parameters.values()], wanted)
    consumable = tuple(is_product(base) and all(user in slices | inside for user in base.users) for base in bases)
    bare, biased = _without_biases(trace, bases, [*constants, *rest], colours)
    return Split(
        before, body, after, len(bases), len(trace.state), len(constants), len(emitted), consumable, bare, biased
    )


def _without_biases(
    trace: Trace, bases: list[fx.Node], others: list[fx.Node], colours: dict[fx.Node, str]
) -> tuple[fx.GraphModule, tuple[int, ...]]:
    """Adding a bias may take a pass over the whole product; the loop adds it to what it has loaded anyway."""
    wanted, biases, biased = list(bases), [], []
    for number, base in enumerate(bases):
        if base.target is not aten.addmm.default or not is_product(base):
            continue
        bias = base.all_input_nodes[0]
        if len(_shape(bias)) == 1 and colours[bias] == "constant":
            with trace.graph.inserting_after(base):
                wanted[number] = trace.graph.call_function(aten.mm.default, base.args[1:])
            biases.append(bias)
            biased.append(number)
    wanted += [*others, *biases]
    needed = _ancestors(wanted, lambda node: node.op == "call_function")
    inputs = [trace.x, *trace.parameters.values()]
    bare = _extract([node for node in trace.graph.nodes if node in needed], inputs, wanted)
    for node in bare.graph.nodes:
        if node.target is aten.mm.default:
            node.target = row_product
    bare.recompile()
    return bare, tuple(biased)


def is_product(node: fx.Node) -> bool:
    """Whether an operation is a matrix product of rows with a matrix."""
    return node.target in (aten.mm.default, aten.addmm.default) and not node.kwargs


def _is_inline(node: fx.Node, colours: dict[fx.Node, str]) -> bool:
    """Whether the loop's kernels may as well do it themselves: cuts, pointwise operations, numbers repeated."""
    if node.op != "call_function" or not node.all_input_nodes:
        return node.op == "call_function"
    return colours[node] == "input" and node.target in SLICING | POINTWISE and not _is_part(node)


def _is_part(node: fx.Node) -> bool:
    """Whether a value is one of the results of an operation that has several and is no cut into columns."""
    return node.target is item and node.all_input_nodes[0].target not in SLICING


def _colours(trace: Trace) -> dict[fx.Node, str]:
    """constant (parameters only), input (the input too) or loop (the state too, or mixes rows) for each node."""
    colours: dict[fx.Node, str] = {}
    for node in trace.graph.nodes:
        below = {colours[used] for used in node.all_input_nodes}
        if node is trace.x:
            colours[node] = "input"
        elif node in trace.state or "loop" in below:
            colours[node] = "loop"
        elif "input" in below:
            colours[node] = "input" if _rowwise(node, colours) else "loop"
        elif _mentions(node.args):  # a constant repeated for every row
            colours[node] = "input"
        else:
            colours[node] = "constant"
    return colours


def _rowwise(node: fx.Node, colours: dict[fx.Node, str]) -> bool:
    """Whether an operation treats each row by itself, so that rows of all time steps may go through it together."""
    target, shape = node.target, _shape(node)
    if is_product(node):
        return all(colours[used] == "constant" for used in node.all_input_nodes if used is not _left(node))
    if target is item:
        return True
    if target in RESHAPING:
        return len(shape) == 0 or shape[0] == _shape(node.all_input_nodes[0])[0]
    if target in SLICING or target in ALONG_COLUMNS:
        return _dimension(node) not in (None, 0)
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags


def _left(node: fx.Node) -> Any:
    return node.args[1] if node.target is aten.addmm.default else node.args[0]


def _dimension(node: fx.Node) -> int | None:
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
    return found if found >= 0 else found + len(_shape(node.all_input_nodes[0]))


def _shape(node: fx.Node) -> tuple[int, ...]:
    shape: tuple[int, ...] = node.meta.get("shape", ())
    return shape


def _merge_products(trace: Trace) -> None:
    """Give all linear maps of the same rows of the input one matrix product, and each of them its columns of it."""
    colours = _colours(trace)
    groups: dict[fx.Node, list[fx.Node]] = {}
    for node in trace.graph.nodes:
        if is_product(node) and colours[node] == "input":
            groups.setdefault(_left(node), []).append(node)
    for left, nodes in groups.items():
        if len(nodes) > 1 and all(len(_shape(node.all_input_nodes[0])) == 1 for node in nodes if len(node.args) == 3):
            _merge(trace.graph, left, nodes, colours)


def _merge(graph: fx.Graph, left: fx.Node, nodes: list[fx.Node], colours: dict[fx.Node, str]) -> None:
    needed = _ancestors(
        [used for node in nodes for used in node.all_input_nodes], lambda node: node.op == "call_function"
    )
    last = [node for node in graph.nodes if node in needed]
    # Inputs of the merged product may come after the first of them; they are constant, so they can be moved up.
    first = nodes[0]
    for node in last:
        if colours[node] == "constant":
            first.prepend(node)
    with graph.inserting_before(first):
        right = graph.call_function(aten.cat.default, ([node.args[-1] for node in nodes], 1))
        widths = [_shape(node)[1] for node in nodes]
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
        product.meta["shape"] = (_shape(nodes[0])[0], sum(widths))
        start = 0
        for node, width in zip(nodes, widths, strict=True):
            part = graph.call_function(aten.slice.Tensor, (product, 1, start, start + width))
            part.meta["shape"] = _shape(node)
            node.replace_all_uses_with(part)
            start += width
    for node in nodes:
        graph.erase_node(node)


def _extract(nodes: list[fx.Node], inputs: list[fx.Node], outputs: list[fx.Node]) -> fx.GraphModule:
    """A module of its own from some operations of the step."""
    graph = fx.Graph()
    env = {node: graph.placeholder(node.name) for node in inputs}
    rows: fx.Node | None = None
    for node in nodes:
        copied = graph.node_copy(node, lambda used: env[used])
        if _mentions(copied.args):
            with graph.inserting_before(copied):
                rows = rows or graph.call_function(aten.sym_size.int, (env[inputs[0]], 0))
            copied.args = _replace(copied.args, rows)
        env[node] = copied
    for node, copied in env.items():
        copied.meta.update(node.meta)
    graph.output(tuple(env[node] for node in outputs))
    return fx.GraphModule(nn.Module(), graph)


def _mentions(argument: Any) -> bool:
    """Whether the arguments name the number of rows."""
    if isinstance(argument, (list, tuple)):
        return any(_mentions(part) for part in argument)
    return isinstance(argument, Batch)


def _replace(argument: Any, rows: fx.Node) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument)(_replace(part, rows) for part in argument)
    return rows if isinstance(argument, Batch) else argument


def _ancestors(nodes: Iterable[fx.Node], keep: Callable[[fx.Node], bool]) -> set[fx.Node]:
    """The nodes for which `keep` holds, reached from these through such nodes only."""
    found: set[fx.Node] = set()
    todo = [node for node in nodes if keep(node)]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [used for used in node.all_input_nodes if keep(used)]
    return found


def _unique(nodes: Iterable[fx.Node]) -> list[fx.Node]:
    return list(dict.fromkeys(nodes))
