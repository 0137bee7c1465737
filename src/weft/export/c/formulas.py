"""Elementwise operations as expressions of C, and the loops over their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.export.c.sizes import length, times
from weft.export.graph import Size, Value
from weft.export.graph.graph import BINARY, COMPARE, UNARY

ELEMENTWISE: Final = frozenset((*UNARY, *BINARY, *COMPARE, "where", "cast", "sin", "cos"))

PLAIN: Final = {
    "neg": "-{0}",
    "not": "!{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} == {1}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "where": "{0} ? {1} : {2}",
}
"""Operators; an operand that is an expression stands in brackets."""

CALLS: Final = {
    "exp": "exponential",
    "tanh": "hyperbolic",
    "sigmoid": "logistic",
    "relu": "rectified",
    "gelu": "gelu",
    "gelu_tanh": "gelu_tanh",
    "silu": "silu",
    "maximum": "larger",
    "minimum": "smaller",
    "abs": "fabsf",
    "log": "logf",
    "sqrt": "sqrtf",
    "erf": "erff",
    "pow": "powf",
    "sin": "sinf",
    "cos": "cosf",
}
WHOLE: Final = {"abs": "whole_absolute", "maximum": "whole_larger", "minimum": "whole_smaller"}
"""Functions of numbers and of whole numbers."""

LIBRARY: Final = frozenset(("fabsf", "logf", "sqrtf", "erff", "powf", "sinf", "cosf"))
"""Functions of libm; the others are kernels."""


class Term(NamedTuple):
    """An expression of C, the number of operations in it, and whether it needs brackets as an operand."""

    text: str
    size: int = 0
    open: bool = False


def formula(op: str, operands: Sequence[Term], *, kind: str, reads: str) -> tuple[Term, set[str]]:
    """The expression of an operation whose operands are of kind `reads`, and the kernels that it needs."""
    size = 1 + sum(one.size for one in operands)
    texts = [f"({one.text})" if one.open else one.text for one in operands]
    if op == "cast":
        if kind == "float":
            return Term(f"(float){texts[0]}", size, True), set()
        if kind == "bool":
            return Term(f"{texts[0]} != 0", size, True), set()
        return (Term(f"whole({operands[0].text})", size), {"whole"}) if reads == "float" else (operands[0], set())
    if op in PLAIN:
        return Term(PLAIN[op].format(*texts), size, True), set()
    name = WHOLE[op] if reads == "int" else CALLS[op]
    return Term(f"{name}({', '.join(one.text for one in operands)})", size), set() if name in LIBRARY else {name}


class Loops(NamedTuple):
    """Nested loops over the elements of a shape: their bounds, and the index of an operand inside them."""

    bounds: tuple[str, ...]
    indices: tuple[str, ...]

    @classmethod
    def over(cls, shape: Sequence[Size], operands: Sequence[Sequence[Size]]) -> Loops:
        """Join neighbouring axes into one loop where every operand advances along both or is constant along both."""
        axes: list[tuple[list[str], tuple[bool, ...]]] = []
        for axis, size in enumerate(shape):
            if size == 1:
                continue
            moves = tuple(_moves(operand, shape, axis) for operand in operands)
            if axes and axes[-1][1] == moves:
                axes[-1][0].append(length(size))
            else:
                axes.append(([length(size)], moves))
        bounds = tuple(times(*sizes) for sizes, _ in axes)
        indices = [_index(list(bounds), [moves[number] for _, moves in axes]) for number in range(len(operands))]
        return cls(bounds, (*indices, _index(list(bounds), [True] * len(bounds))))

    def around(self, line: str, indent: str) -> list[str]:
        lines = []
        for number, bound in enumerate(self.bounds):
            name = VARIABLES[number]
            lines.append(f"{indent}for (long {name} = 0; {name} < {bound}; {name}++)")
            indent += "    "
        return [*lines, f"{indent}{line}"]


VARIABLES: Final = ("i", "j", "k", "l", "u", "v", "w", "x")


def _moves(operand: Sequence[Size], shape: Sequence[Size], axis: int) -> bool:
    at = axis - (len(shape) - len(operand))
    return at >= 0 and operand[at] != 1


def _index(bounds: list[str], moves: list[bool]) -> str:
    """The index of an operand whose elements lie one after another."""
    parts, stride = [], "1"
    for number in reversed(range(len(bounds))):
        if moves[number]:
            name = VARIABLES[number]
            parts.append(name if stride == "1" else f"{name} * {_wrap(stride)}")
            stride = times(bounds[number], stride)
    return " + ".join(reversed(parts)) or "0"


def _wrap(stride: str) -> str:
    return f"({stride})" if " " in stride else stride


def literal(number: float, kind: str) -> str:
    """A number of C with all its digits."""
    if kind != "float":
        return str(int(number))
    if number != number:
        return "NAN"
    if number in (float("inf"), float("-inf")):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    text = f"{number:.9g}"
    text = text if any(letter in text for letter in ".e") else f"{text}.0"
    return f"({text}f)" if number < 0 else f"{text}f"


def c_type(value: Value) -> str:
    return "float" if value.kind == "float" else "int32_t"
