"""The values of one step of a cell, by the names that they have in its equations, for any cell.

The step runs once while every operation and every local variable is noted. What a value is follows from the operation
that made it:

    gate         σ of something:            f = σ(…), or σ(f) where f is the sum before it
    candidate    tanh of something that is not a state: g = tanh(…)
    state        a tensor of the next state
    output       what the layer above reads, where it is not a state
    other        sums and products with a name, such as what enters a gate
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor, fx

from weft.inspect.local_names import Binding, LocalNames
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.trace import Recorder, item
from weft.nn.state import State, leaves_of

Kind = Literal["gate", "candidate", "state", "output", "other"]

KINDS: Final[tuple[Kind, ...]] = ("gate", "candidate", "state", "output", "other")
"""In the order in which they are shown."""

GATES: Final = {"sigmoid": "σ", "hardsigmoid": "hardsigmoid", "_softmax": "softmax"}
CANDIDATES: Final = {"tanh": "tanh", "hardtanh": "hardtanh", "relu": "relu", "silu": "silu", "gelu": "gelu"}
SQUASHES: Final = GATES | CANDIDATES
"""Operations of torch whose results are gates and candidates, with the names that they have in equations."""

VIEWS: Final = frozenset(
    ("item", "split", "split_with_sizes", "chunk", "slice", "select", "narrow", "view", "_unsafe_view", "reshape")
) | {"unbind", "alias", "unsqueeze", "squeeze"}
"""Operations whose result is a part of their argument, or all of it in another shape."""

SUMS: Final = frozenset(("add", "sub", "mul", "div"))
"""Operations through which a value gets the name of its first argument that has one."""


class StepValue(NamedTuple):
    """A value of a step, (N, n): one row for each row of x."""

    name: str
    kind: Kind
    values: Tensor


class Kept(NamedTuple):
    """The factor (N, n) by which a step multiplies a tensor of the state: `f` in c' = f ⊙ c + i ⊙ g."""

    state: str
    name: str
    values: Tensor


class StepRead(NamedTuple):
    """All values of a step by kind, in the order of its equations, and the factors of its states."""

    values: list[StepValue]
    kept: list[Kept]
    states: list[str]
    """The names of the tensors of the state, in its order."""
    output: str
    """The name of the output, which may be a state."""


@torch.no_grad()
def read_step(cell: Cell, x: Tensor, state: State) -> StepRead:
    """x (N, I) and the state before it, one row for each step -> the values of that step."""
    tensors = dict(cell.named_parameters()) | dict(cell.named_buffers())
    recorder = Recorder(tensors, x, leaves_of(state), strict=False)
    with torch.autocast(x.device.type, enabled=False), recorder, LocalNames(cell) as names:
        output, after = cell.step(x, state)
    return _Reader(recorder, names, output, after).read()


class _Reader:
    """Joins the graph of a step with the names of its variables."""

    def __init__(self, recorder: Recorder, names: LocalNames, output: Tensor, after: State) -> None:
        self.graph, self.tensors, self.state = recorder.graph, recorder.values, recorder.state
        self.given = {node for node in self.graph.nodes if node.op == "placeholder"}
        self.names: dict[fx.Node, list[Binding]] = {}
        self.order: dict[str, int] = {}
        for binding in names.bindings:
            self.names.setdefault(recorder.node(binding.tensor), []).append(binding)
            self.order.setdefault(binding.name, len(self.order))
        self.after = [recorder.node(part) for part in leaves_of(after)]
        self.output = recorder.node(output)
        self.rows = output.size(0)
        self.state_names = self._name_states(after)
        self.found: dict[fx.Node, StepValue] = {}

    def read(self) -> StepRead:
        states = dict(zip(self.after, self.state_names, strict=True))
        for node in self.graph.nodes:
            operation = _operation(node)
            if operation in SQUASHES and node not in states:
                for piece in self._pieces(node):
                    self._add_squashed(piece, node, operation, states)
            elif operation in ("rsub", "sub") and self._gate_of(node) is not None and self._name(node):
                self._add(node, self._name(node) or "", "gate")  # i = 1 - f
        if self.output not in states:
            self._add(self.output, self._name(self.output) or "output", "output")
        for node, name in states.items():
            if node not in self.given:
                self._add(node, name, "state")
        self._add_others()
        values = _distinct(sorted(self.found.values(), key=self._place))
        output = states.get(self.output) or self.found[self.output].name
        return StepRead(values, list(self._factors()), self.state_names, output)

    def _place(self, value: StepValue) -> tuple[int, int]:
        """Sorts values by kind, then by the place at which their name first stands in the step."""
        return KINDS.index(value.kind), self.order.get(value.name, len(self.order))

    def _add_squashed(self, piece: fx.Node, node: fx.Node, operation: str, states: dict[fx.Node, str]) -> None:
        """Add a gate or candidate, or a named part of several that were computed together."""
        if piece in states:
            return
        inside = node.args[0]
        name = self._name(piece)
        if name is None and isinstance(inside, fx.Node):
            if inside in states or inside in self.given:
                of = states.get(inside) or self._name(inside) or "x"
                self._add(piece, f"{SQUASHES[operation]}({of})", "other")
                return
            name = self._inherit(inside)
        if operation in GATES:
            self._add(piece, name or GATES[operation], "gate")
        else:
            self._add(piece, name or CANDIDATES[operation], "candidate" if name else "other")

    def _add_others(self) -> None:
        """Add what else has a name. A sum that gave its name to a gate is called by what is done to it."""
        taken = {value.name for value in self.found.values()}
        for node in self.graph.nodes:
            name = self._name(node)
            if node in self.found or node in self.given or name is None or self._is_stacked(node):
                continue
            squash = next((SQUASHES[_operation(user)] for user in node.users if _operation(user) in SQUASHES), None)
            if name in taken:
                name = f"{name} before {squash}" if squash else f"{name} before"
            self._add(node, name, "other")

    def _add(self, node: fx.Node, name: str, kind: Kind) -> None:
        values = self.tensors.get(node)
        if node not in self.found and values is not None and values.dim() > 1 and values.size(0) == self.rows:
            self.found[node] = StepValue(name, kind, values.flatten(1))

    def _pieces(self, node: fx.Node) -> list[fx.Node]:
        """The named parts of a result, r and u of r, u = σ(…).chunk(2); or the result itself."""
        todo, named = list(node.users), []
        while todo:
            user = todo.pop(0)
            if _operation(user) in VIEWS:
                named += [user] if self._name(user) else []
                todo += list(user.users)
        return named or [node]

    def _is_stacked(self, node: fx.Node) -> bool:
        """Whether a result has parts with names of their own."""
        return self._pieces(node) != [node]

    def _name(self, node: fx.Node) -> str | None:
        """The last variable that stood for a value; one inside a tuple only where no other did."""
        bindings = self.names.get(node, [])
        plain = [binding for binding in bindings if not binding.inside]
        return (plain or bindings)[-1].name if bindings else None

    def _inherit(self, node: fx.Node) -> str | None:
        """The name of a sum, or of its first term that has one."""
        if node in self.given or node in self.after:
            return None
        if (name := self._name(node)) is not None:
            return name
        terms = [part for part in node.args if isinstance(part, fx.Node)] if _operation(node) in SUMS else []
        return next(filter(None, map(self._inherit, terms)), None)

    def _name_states(self, after: State) -> list[str]:
        """The names of the tensors of a state: its fields, or the variables that it was returned in."""
        paths = list(_paths(after))
        names = [self._name(node) if node not in self.given else None for node in self.after]
        before = [self._name(node) for node in self.state]
        found = zip(paths, names, before, strict=True)
        return [path if path[:1].isalpha() else name or old or f"state{path}" for path, name, old in found]

    def _gate_of(self, node: fx.Node) -> fx.Node | None:
        """f of 1 - f."""
        first, second = (*node.args, None, None)[:2]
        one, gate = (second, first) if _operation(node) == "rsub" else (first, second)
        return gate if one == 1 and isinstance(gate, fx.Node) and gate in self.found else None

    def _factors(self) -> Iterator[Kept]:
        for before, after, state in zip(self.state, self.after, self.state_names, strict=True):
            for term in _terms(after):
                factor = _factor(term, before)
                if factor is None:
                    continue
                like = self.tensors[before]
                if isinstance(factor, fx.Node):
                    values = self.tensors[factor].expand_as(like)
                    yield Kept(state, self._factor_name(factor), values)
                elif isinstance(factor, Rest):
                    yield Kept(state, f"1 - {self._factor_name(factor.node)}", 1 - self.tensors[factor.node])
                else:
                    yield Kept(state, f"{factor:g}", torch.full_like(like, factor))
                break

    def _factor_name(self, node: fx.Node) -> str:
        if node in self.found:
            return self.found[node].name
        if _operation(node) in ("rsub", "sub") and (gate := self._gate_of(node)) is not None:
            return f"1 - {self.found[gate].name}"
        return self._name(node) or "factor"


class Rest(NamedTuple):
    """One minus the weight of an interpolation."""

    node: fx.Node


def _operation(node: fx.Node) -> str:
    """The name of the operation of torch; one that works in place has the name of the other."""
    if node.target is item:
        return "item"
    packet = getattr(node.target, "overloadpacket", None)
    return "" if packet is None else packet.__name__.rstrip("_")


def _terms(node: fx.Node) -> Iterator[fx.Node]:
    """The terms of a sum; what is no sum is its own term."""
    if _operation(node) != "add" or len(node.args) > 2 or node.kwargs:
        yield node
        return
    for part in node.args:
        if isinstance(part, fx.Node):
            yield from _terms(part)


def _factor(term: fx.Node, state: fx.Node) -> Any:
    """The factor of the state in a term of a sum; None where the term is no product with it."""
    operation, parts = _operation(term), list[Any]([*term.args, None, None])
    if term is state:
        return 1.0
    if operation == "mul" and state in parts[:2]:
        return parts[1] if parts[0] is state else parts[0]
    if operation == "addcmul" and state in parts[1:3]:
        return parts[2] if parts[1] is state else parts[1]
    if operation == "lerp" and parts[0] is state:
        return Rest(parts[2]) if isinstance(parts[2], fx.Node) else 1.0 - parts[2]
    return None


def _paths(state: State, path: str = "") -> Iterator[str]:
    """The name of each tensor of a state by the fields of its tuples: "h", "c", "[0]"."""
    if isinstance(state, tuple):
        fields = getattr(state, "_fields", None)
        for number, part in enumerate(state):
            step = f"[{number}]" if fields is None else f".{fields[number]}" if path else fields[number]
            yield from _paths(part, path + step)
    elif state is not None:
        yield path


def _distinct(values: Iterable[StepValue]) -> list[StepValue]:
    """Values whose names are all different: a second f is "f 2"."""
    seen: Counter[str] = Counter()
    found = []
    for value in values:
        seen[value.name] += 1
        found.append(value if seen[value.name] == 1 else value._replace(name=f"{value.name} {seen[value.name]}"))
    return found
