"""A graph as a function of C over flat arrays: one row, no padding, no allocation.

The nodes become steps in their order. Elementwise nodes with one use inside another one of the same shape become one
formula. Every value has a slot of the scratch memory while it is needed; what only looks differently at the same
numbers (reshape, a part of the first axis) has none of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from weft.export.c.constants import Constants
from weft.export.c.formulas import ELEMENTWISE, Loops, Term, c_type, formula, literal
from weft.export.c.sizes import identifier, length, names_of
from weft.export.c.statements import STATEMENTS, Text
from weft.export.c.storage import Slot, place
from weft.export.graph import Graph, Node, Value

MAX_OPERATIONS: Final = 12
"""Operations in one formula."""


@dataclass
class Step:
    """Lines of C, the values that they read, and those that they write."""

    lines: list[str]
    reads: list[Value]
    writes: list[Value]


@dataclass
class Written:
    """A function and what it needs."""

    text: list[str]
    kernels: set[str] = field(default_factory=set)
    lengths: tuple[str, ...] = ()


class GraphWriter:
    """Writes one graph. `name` is that of the function."""

    def __init__(self, graph: Graph, constants: Constants, *, name: str) -> None:
        self.graph, self.constants, self.name = graph, constants, name
        self.kernels: set[str] = set()
        self.steps: list[Step] = []
        self.arrays: dict[Value, Any] = {}
        self.pointers: dict[Value, str] = {}
        self.roots: dict[Value, Value] = {}
        self.terms: dict[Value, Term] = {}
        self.leaves: dict[Value, list[Value]] = {}
        self.derived: list[str] = []
        self.lengths: list[str] = []
        self.used: Counter[Value] = Counter()
        self.scratch: dict[Value, None] = {}
        self.marks: dict[Value, int] = {}
        self.given: tuple[str, ...] = ()
        self.slots: list[Slot] = []

    def write(self) -> Written:
        graph = self.graph
        for value in graph.inputs:
            self.lengths += [name for name in names_of(value.shape) if name not in self.lengths]
            self.pointers[value] = f"in_{identifier(value.name)}"
        self.given = tuple(self.lengths)
        outputs = self._direct_outputs()
        self.add_nodes(graph)
        copies = [Text(self).copy(f"out_{identifier(v.name)}", v, v) for v in graph.outputs if v not in outputs]
        self.steps.append(Step(copies, list(graph.outputs), []))
        return Written(self._function(), self.kernels, self.given)

    def _direct_outputs(self) -> set[Value]:
        """Outputs that are written where the caller wants them, by the node that makes them."""
        made = {value: node for node in self.graph.nodes for value in node.outputs}
        found = set()
        for value in self.graph.outputs:
            if value in made and made[value].op not in ("reshape", "recur", "slice", "first", "last"):
                self.pointers[value] = f"out_{identifier(value.name)}"
                found.add(value)
        return found

    def add_nodes(self, graph: Graph) -> None:
        """Append the steps of the nodes of a graph, which may be the body of a loop."""
        self.arrays |= graph.constants
        for node in graph.nodes:
            self.used.update(node.inputs)
        self.used.update(graph.outputs)
        for number, node in enumerate(graph.nodes):
            self._derive(node)
            if node.op not in ELEMENTWISE:
                self._other(node)
            elif not self._inlines(node, graph, number):
                self._elementwise(node)

    def _derive(self, node: Node) -> None:
        """Declare lengths that are the sum of others."""
        for output in node.outputs:
            for name in names_of(output.shape):
                if name in self.lengths:
                    continue
                if node.op == "append":
                    text = " + ".join(length(value.shape[0]) for value in node.inputs)
                elif node.op == "concat":
                    text = " + ".join(length(value.shape[node.attributes["axis"]]) for value in node.inputs)
                else:
                    raise AssertionError(f"the length {name} of {node.op} is not known")
                self.lengths.append(name)
                self.derived.append(f"const long {length(name)} = {text};")

    def _inlines(self, node: Node, graph: Graph, number: int) -> bool:
        """Make a node a part of the formula of the only one that reads it."""
        output = node.outputs[0]
        readers = [other for other in graph.nodes[number + 1 :] if output in other.inputs]
        if self.used[output] != 1 or not readers or readers[0].op not in ELEMENTWISE:
            return False
        if readers[0].outputs[0].shape != output.shape:
            return False
        term, leaves = self._term(node)
        if term.size > MAX_OPERATIONS:
            return False
        self.terms[output], self.leaves[output] = term, leaves
        return True

    def _term(self, node: Node) -> tuple[Term, list[Value]]:
        """The formula of a node, in which {value} stands for an operand that is read from memory."""
        operands, leaves = [], []
        for value in node.inputs:
            if value in self.terms:
                operands.append(self.terms[value])
                leaves += self.leaves[value]
            elif value in self.arrays and self.arrays[value].size == 1:
                operands.append(Term(literal(float(self.arrays[value].reshape(())), value.kind)))
            else:
                operands.append(Term(f"\0{id(value)}\0"))
                leaves.append(value)
        term, kernels = formula(node.op, operands, kind=node.outputs[0].kind, reads=node.inputs[0].kind)
        self.kernels |= kernels
        return term, leaves

    def _elementwise(self, node: Node) -> None:
        (output,) = node.outputs
        term, leaves = self._term(node)
        leaves = list(dict.fromkeys(leaves))
        loops = Loops.over(output.shape, [value.shape for value in leaves])
        text = term.text
        lines = ["{", f"    {c_type(output)} *restrict o = {Text(self).to(output)};"]
        for number, value in enumerate(leaves):
            lines.append(f"    const {c_type(value)} *restrict a{number} = {self.at(value)};")
            text = text.replace(f"\0{id(value)}\0", f"a{number}[{loops.indices[number]}]")
        lines += [*loops.around(f"o[{loops.indices[-1]}] = {text};", "    "), "}"]
        self.add(lines, leaves, [output])

    def _other(self, node: Node) -> None:
        text = Text(self)
        STATEMENTS[node.op](text, node)

    def add(self, lines: list[str], reads: list[Value], writes: list[Value]) -> None:
        """Append a step."""
        self.steps.append(Step(lines, reads, writes))
        self.scratch |= dict.fromkeys(value for value in writes if value not in self.pointers)

    def alias(self, value: Value, of: Value, pointer: str | None = None) -> None:
        """A value that lies in the memory of another one."""
        self.roots[value] = of
        self.pointers[value] = pointer or self.at(of)

    def at(self, value: Value) -> str:
        """The address of a value, to be filled in when slots are known."""
        if value in self.pointers:
            return self.pointers[value]
        if value in self.arrays:
            return self.constants.plain(self.arrays[value])
        return f"@{self.mark(value)}@"

    def mark(self, value: Value) -> int:
        return self.marks.setdefault(value, len(self.marks))

    def root(self, value: Value) -> Value:
        while value in self.roots:
            value = self.roots[value]
        return value

    def _function(self) -> list[str]:
        spans: dict[Value, list[int]] = {}
        for number, step in enumerate(self.steps):
            for value in (*step.reads, *step.writes):
                root = self.root(value)
                if root in self.scratch:
                    spans.setdefault(root, [number, number])[1] = number
        slots, found = place([(value, first, last) for value, (first, last) in spans.items()])
        self.slots = slots
        names = {str(mark): self._name(value, found) for value, mark in self.marks.items()}
        parameters = [*(f"long {length(name)}" for name in self.given)]
        lines = [f"static uint64_t {self.name}_bytes({', '.join(parameters) or 'void'})", "{"]
        lines += [f"    (void){length(name)};" for name in self.given]
        lines += [f"    {line}" for line in self.derived] + [
            f"    (void){length(name)};" for name in self.lengths[len(self.given) :]
        ]
        sizes = " + ".join(f"weft_room({slot.size()})" for slot in slots) or "0"
        lines += [f"    return {sizes};", "}", ""]
        given = [f"const {c_type(v)} *in_{identifier(v.name)}" for v in self.graph.inputs]
        wanted = [f"{c_type(v)} *out_{identifier(v.name)}" for v in self.graph.outputs]
        head = ", ".join(["weft_model *m", *parameters, *given, *wanted])
        lines += [f"static int {self.name}({head})", "{"]
        lines += [f"    {line}" for line in self.derived]
        calls = ", ".join(length(name) for name in self.given)
        lines.append(f"    if ({self.name}_bytes({calls}) > m->scratch_bytes) return WEFT_TOO_LONG;")
        before = "m->scratch"
        for number, slot in enumerate(slots):
            lines.append(f"    unsigned char *const s{number} = {before};")
            before = f"s{number} + weft_room({slot.size()})"
        lines += [f"    (void)in_{identifier(v.name)};" for v in self.graph.inputs]
        lines += [f"    (void){length(name)};" for name in self.lengths]
        for step in self.steps:
            for line in step.lines:
                lines.append("    " + _fill(line, names) if line else "")
        return [*lines, "    return 0;", "}", ""]

    def _name(self, value: Value, found: dict[Value, int]) -> str:
        return f"(({c_type(value)} *)s{found[value]})" if value in found else "UNPLACED"


def _fill(line: str, names: dict[str, str]) -> str:
    parts = line.split("@")
    return "".join(names[part] if number % 2 else part for number, part in enumerate(parts))
