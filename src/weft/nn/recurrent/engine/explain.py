"""A plan in words: what was hoisted, the stages of the loop, what is kept, and where it runs."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from weft.errors import counted
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.backends import BACKENDS
from weft.nn.recurrent.engine.enrolled import last_passes
from weft.nn.recurrent.engine.expr import Expr, closure, width_of
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.layout import Assignment
from weft.nn.recurrent.engine.plan import Kernels, Plan
from weft.nn.recurrent.engine.program import Attention, Product
from weft.nn.recurrent.engine.run import BackendChoice


def explain(cell: Cell, choice: BackendChoice, *, directions: int) -> str:
    """Several lines: the backend and why, then the plan."""
    backend, reason = choice.backend, choice.reason
    twice = ", both directions side by side" if directions == 2 else ""
    plan = plan_of(cell)
    words = BACKENDS[backend].words
    if backend == "cuda" and isinstance(plan, Plan) and plan.kernels is not None and plan.kernels.lanes is not None:
        words = "on the GPU, in generated kernels that hold the loop over time"
    lines = [f"{type(cell).__name__} runs {words}{twice}" + (f" ({reason})" if reason else "")]
    if isinstance(plan, Plan) and BACKENDS[backend].planned:
        lines += [f"  {line}" for line in _describe(plan, backend, choice.method)]
        passes = last_passes(cell) if BACKENDS[backend].fast else {}
        lines += [f"  {name}: {how}" for name, how in passes.items()]
    return "\n".join(lines)


def _describe(plan: Plan, backend: str, method: str) -> list[str]:
    widths = [math.prod(node.meta["shape"][1:]) for node in list(plan.split.body.graph.nodes)[: plan.split.hoisted]]
    before = f"before the loop: {_columns(widths)} from the input, for all time steps at once"
    after = ["after the loop: the output, for all time steps at once"] if plan.split.after is not None else []
    if plan.kernels is None or backend == "plain":
        return [before, *after]
    if plan.kernels.lanes is not None:
        return [before, *_loop(plan, method), *after]
    backward = (
        f"backward: {counted(plan.kernels.adjoint.last, 'product stage')} a step; weight gradients once, after the loop"
    )
    return [before, *_stages(plan.kernels), backward, *after, _kept(plan.kernels)]


def _loop(plan: Plan, method: str) -> list[str]:
    """A step without products: whether it is a scan, what a loop does, and what is kept."""
    kernels = plan.kernels_by(method)
    assert kernels is not None
    layout, states = kernels.layout, _columns(kernels.program.state)
    if kernels.scans is None:
        lines = ["no matrix product reads its state: all steps in one loop"]
    else:
        lines = [f"linear in its state (h' = a ⊙ h + b): {METHODS[method]}"]
    counts = [
        len(_operations([store for stage in stages for store in stage])) for stages in (layout.forward, layout.backward)
    ]
    lines += [f"each step: {counted(counts[0], 'pointwise operation')} forward, {counts[1]} backward"]
    return [*lines, f"kept for backward: the states ({states}) and the columns from the input"]


METHODS: Final = {
    "auto": "runs as a scan over time where rows are long and few, else as a loop",
    "scan": "runs as a scan over time, as asked",
    "loop": "runs as a loop, as asked",
}


def _stages(kernels: Kernels) -> list[str]:
    program, lines = kernels.program, []
    for stage, stores in enumerate(kernels.layout.forward):
        mine = [product for product in program.products if product.stage == stage]
        if not mine and not stores:
            continue
        sizes = Counter(f"{product.depth} x {product.width}" for product in mine if not product.attention)
        products = [f"product {size}" if count == 1 else f"{count} products {size}" for size, count in sizes.items()]
        parts = [" and ".join(products)] if products else []
        parts += [_attention(product, product.attention) for product in mine if product.attention]
        operations = len(_operations(stores))
        parts += [f"{counted(operations, 'pointwise operation')} in one kernel"] if operations else []
        lines.append(f"stage {stage} of each step: {', then '.join(parts) or 'columns put where products read them'}")
    return lines


def _attention(product: Product, attention: Attention) -> str:
    score = "products" if attention.over is None else "additive scores"
    hard = " (the best alone)" if attention.hard else ""
    return f"attention to the source by {score}{hard}, queries of {product.depth}, values of {product.width}"


def _kept(kernels: Kernels) -> str:
    saved = width_of(kernels.adjoint.saved)
    over = sum(
        e.width
        for e, (buffer, _) in zip(kernels.adjoint.saved, kernels.layout.kept, strict=True)
        if buffer.kind is Kind.KEPT
    )
    states = _columns(kernels.program.state)
    return f"kept for backward: the states ({states}) and {saved} columns, {over} of them in place"


def _columns(widths: list[int]) -> str:
    return f"{' + '.join(map(str, widths))} columns"


def _operations(stores: list[Assignment]) -> list[Expr]:
    return [expr for expr in closure(store.expr for store in stores) if expr.args]
