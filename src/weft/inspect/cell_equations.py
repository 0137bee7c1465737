"""The equations of a cell, as the docstring of its class or of its module states them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc, isclass
from textwrap import dedent
from typing import Any, Final

from weft.nn.recurrent.cell import Cell

NAME: Final = r"[^\W\d][\w~̂]*'?"
EQUATION: Final = re.compile(rf"\s*{NAME}(\s*,\s*{NAME})*\s*=\s*(?=\S).*[(⊙·+*/@-]")
"""A line such as "h' = o ⊙ tanh(c')" or "i, f = σ(W x + b)"."""

CALL: Final = re.compile(r"\w=\w|>>>")
"""A line of Python: rnn = RNN(4, hidden_size=3)."""


def cell_equations(cell: Cell) -> str:
    """Return the lines of equations of a cell, with the lines that continue them; empty where no docstring has some."""
    return next(filter(None, map(_equation_lines, _docstrings(type(cell)))), "")


def _docstrings(kind: type[Any]) -> Iterator[str]:
    """The docstrings of the class, of its parents down to that whose step it runs, and of the module of that step.

    A module with several cells may state the equations of another one of them: its docstring is left out.
    """
    for one in kind.__mro__:
        yield vars(one).get("__doc__") or ""
        if "step" in vars(one):
            module = getattr(vars(one)["step"], "__globals__", {})
            cells = [
                found
                for found in module.values()
                if isclass(found) and issubclass(found, Cell) and found.__module__ == one.__module__
            ]
            if len(cells) == 1:
                yield module.get("__doc__") or ""
            return


def _equation_lines(text: str) -> str:
    found: list[str] = []
    inside = -1
    for line in cleandoc(text).splitlines():
        indent = len(line) - len(line.lstrip())
        if EQUATION.match(line) and not CALL.search(line):
            inside = indent
            found.append(line)
        elif line.strip() and 0 <= inside < indent:
            found.append(line)
        else:
            inside = -1
    return dedent("\n".join(found)).strip("\n")
