"""The limit of a recurrent layer: its matrix products and nothing else.

    of the input    X W once; backwards G Wᵀ and Xᵀ G once
    of the state    h U at every step; backwards G Uᵀ at every step and Hᵀ G once

X, H and G have a row for every real time step of the batch, h a row for every sequence that has not ended. The
products are torch's own; on a GPU they are replayed from a CUDA graph, so that launching them costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, fx

from weft.nn import Cell
from weft.nn.cuda_graph import record
from weft.nn.recurrent.engine.colours import is_product
from weft.nn.recurrent.engine.trace import trace


class ProductShape(NamedTuple):
    """A product (·, depth) by (depth, width), computed at each step or once for all steps."""

    depth: int
    width: int
    each_step: bool


def products_of(cell: Cell, dtype: torch.dtype) -> list[ProductShape]:
    """Return the products of a step, one for all with the same left side; raises Untraceable."""
    traced = trace(cell, dtype)
    nodes: list[fx.Node] = list(traced.graph.nodes)
    after_state, before_state = set(traced.state), set(traced.after)
    for node in nodes:
        if any(used in after_state for used in node.all_input_nodes):
            after_state.add(node)
    for node in reversed(nodes):
        if node.op == "call_function" and any(user in before_state for user in node.users):
            before_state.add(node)
    sides: dict[tuple[fx.Node, bool], ProductShape] = {}
    for node in filter(is_product, nodes):
        left = node.args[-2]
        assert isinstance(left, fx.Node)
        rows, depth = left.meta["shape"]
        if rows != traced.x.meta["shape"][0]:  # parameters by parameters
            continue
        side = left, node in after_state and node in before_state
        width = sides[side].width if side in sides else 0
        sides[side] = ProductShape(depth, width + node.meta["shape"][1], side[1])
    return list(sides.values())


class MatrixProducts:
    """Computes, when called, the products of one forward and backward pass over rows of these lengths (B,)."""

    def __init__(
        self,
        products: list[ProductShape],
        lengths: Tensor,
        *,
        directions: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._multiply = torch.mm if directions == 1 else torch.bmm
        self._jobs: list[tuple[Tensor, Tensor, Tensor]] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        alive = [int((lengths > step).sum()) for step in range(int(lengths.max()))]
        forward: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in alive]
        backward: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in alive]

        def matrix(rows: int, columns: int) -> Tensor:
            return torch.randn(*([directions] if directions > 1 else []), rows, columns, dtype=dtype, device=device)

        for product in products:
            left, gradient = (matrix(sum(alive), columns) for columns in (product.depth, product.width))
            right, result, back = matrix(product.depth, product.width), torch.empty_like(gradient), left.clone()
            if product.each_step:
                for step, rows in enumerate(alive):
                    forward[step].append((left[..., :rows, :], right, result[..., :rows, :]))
                    backward[step].append((gradient[..., :rows, :], right.mT, back[..., :rows, :]))
            else:
                self._jobs += [(left, right, result), (gradient, right.mT, back)]
            self._jobs.append((left.mT, gradient, torch.empty_like(right)))
        self._jobs += [job for step in (*forward, *reversed(backward)) for job in step]
        if device.type == "cuda":
            self._graph, _ = record(self._run)

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run()

    def _run(self) -> None:
        for left, right, out in self._jobs:
            self._multiply(left, right, out=out)
