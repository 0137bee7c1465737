"""Gradients through fresh cells: the lesson on why an RNN forgets, and what gates and their biases change.

    ∂h_T/∂h_t = Π_{i=t+1..T} diag(S'(a_i)) W_hh            its norm is at most (γ λ_1)^(T-t)

γ is the largest slope of S, λ_1 the largest singular value of W_hh. Inputs and matrices are drawn from normal
distributions; everything is in double precision, because a gradient may shrink to 1e-38 and below.
"""

from __future__ import annotations

import inspect as signatures
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx

from weft.errors import ConfigError
from weft.nn import CELLS, leaves_of
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.cells import CellChoice, build_cell
from weft.nn.recurrent.elman import Elman
from weft.nn.recurrent.engine.trace import Untraceable, trace

SLOPES: Final = {"tanh": 1.0, "relu": 1.0, "identity": 1.0, "sigmoid": 0.25}
"""The largest slope γ of each activation."""

MAX_LENGTH, MAX_HIDDEN = 2000, 1024


@dataclass(frozen=True)
class FreshFlow:
    """The gradient through one fresh cell: ‖∂L/∂h_t‖ for t = 1 … T, where L is the sum of the last output."""

    name: str
    norms: tuple[float, ...]
    spectral_norm: float | None
    """λ_1 of the matrix that the state is multiplied with, if it has one for itself."""
    spectral_radius: float | None
    bound: tuple[float, ...]
    """‖∂L/∂h_T‖ (γ λ_1)^(T-t), for a cell with one matrix and one activation; else empty."""

    @property
    def ratio(self) -> float:
        """The norm at the first step as a share of that at the last."""
        return self.norms[0] / self.norms[-1] if self.norms[-1] else math.nan


def flow_through(
    cell: CellChoice,
    *,
    length: int = 128,
    hidden: int = 128,
    inputs: int = 64,
    std: float = 0.1,
    radius: float | None = None,
    forget_bias: float | None = None,
    seed: int = 0,
) -> FreshFlow:
    """Run a fresh cell over random inputs, and return the norm of the gradient of its last output at each step.

    Matrices are drawn from N(0, std²); `radius` then scales those of the state to that spectral radius (of each gate).
    `forget_bias` goes to cells that have such an option.
    """
    if not 1 <= length <= MAX_LENGTH or not 1 <= hidden <= MAX_HIDDEN:
        what = f"length = {length}, hidden = {hidden} is too small or too large"
        raise ConfigError(what, where="gradients", cure=f"at most {MAX_LENGTH} steps and {MAX_HIDDEN} units")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = build_cell(_with_forget_bias(cell, forget_bias), inputs, hidden)
        x = torch.randn(length, 1, inputs, dtype=torch.float64)
        if not isinstance(cell, Cell):
            _draw(built, std)
    built = built.double().eval()
    matrices = state_matrices(built)
    if radius is not None:
        _scale(built, matrices, radius)
    norms = _run(built, x)
    squares = [block for name in matrices for block in _blocks(built, name)]
    own = squares[0] if len(squares) == 1 else None
    spectral = None if own is None else float(torch.linalg.matrix_norm(own, 2))
    return FreshFlow(
        _name(cell),
        tuple(norms),
        spectral,
        None if own is None else float(torch.linalg.eigvals(own).abs().max()),
        _bound(built, spectral, norms),
    )


def compare_cells(cells: Sequence[CellChoice], **options: Any) -> tuple[FreshFlow, ...]:
    """Return the flow through each of several cells, over the same inputs."""
    if not cells:
        raise ConfigError("no cell is given", where="cells", cure=f"choose from {', '.join(CELLS)}")
    return tuple(flow_through(cell, **options) for cell in cells)


def state_matrices(cell: Cell) -> list[str]:
    """Return the names of the matrices that multiply the state, found in the trace of the step; none if it has none."""
    try:
        traced = trace(cell, next(iter(cell.parameters()), torch.empty(0)).dtype)
    except Untraceable:
        return []
    of_state: set[fx.Node] = set(traced.state)
    names = {node: name for name, node in traced.parameters.items()}
    found: list[str] = []
    origin: dict[fx.Node, str] = dict(names)
    for node in traced.graph.nodes:
        if node.op != "call_function":
            continue
        inputs = node.all_input_nodes
        if len(inputs) == 1 and inputs[0] in origin and len(node.meta.get("shape", ())) == 2:
            origin[node] = origin[inputs[0]]  # a transposed weight is the same weight
        if any(argument in of_state for argument in inputs):
            of_state.add(node)
            found += [origin[one] for one in inputs if one in origin and len(one.meta["shape"]) == 2]
    return list(dict.fromkeys(found))


def _with_forget_bias(cell: CellChoice, forget_bias: float | None) -> CellChoice:
    if forget_bias is None or not isinstance(cell, str) or cell not in CELLS:
        return cell
    if "forget_bias" not in signatures.signature(CELLS[cell].__init__).parameters:
        return cell
    return {"kind": cell, "forget_bias": forget_bias}


@torch.no_grad()
def _draw(cell: Cell, std: float) -> None:
    for weight in cell.parameters():
        if weight.dim() == 2:
            weight.normal_(0.0, std)


@torch.no_grad()
def _scale(cell: Cell, matrices: list[str], radius: float) -> None:
    for name in matrices:
        for block in _blocks(cell, name):
            found = float(torch.linalg.eigvals(block).abs().max())
            if found > 0:
                block.mul_(radius / found)


def _blocks(cell: Cell, name: str) -> list[Tensor]:
    """The square parts of a matrix (G·H, H), one for each gate; views that can be written to."""
    weight = dict(cell.named_parameters()).get(name)
    if weight is None or weight.dim() != 2 or weight.size(0) % weight.size(1):
        return []
    return list(torch.split(weight.detach(), weight.size(1)))


def _run(cell: Cell, x: Tensor) -> list[float]:
    state, states = cell.zero_state(1, x[0]), []
    for step in x:
        output, state = cell.step(step, state)
        shown = leaves_of(state)[0]
        shown.retain_grad()
        states.append(shown)
    cell.zero_grad()
    output.sum().backward()  # type: ignore[no-untyped-call]
    norms = [0.0 if state.grad is None else float(state.grad.norm()) for state in states]
    cell.zero_grad()
    return norms


def _bound(cell: Cell, spectral: float | None, norms: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(cell, Elman) or cell.feedback or spectral is None:
        return ()
    base = SLOPES[cell.activation] * spectral
    return tuple(norms[-1] * base ** min(len(norms) - 1 - step, 300) for step in range(len(norms)))


def _name(cell: CellChoice) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Cell):
        return type(cell).__name__
    return str(cell.get("kind", "cell")) if hasattr(cell, "get") else str(getattr(cell, "__name__", cell))
