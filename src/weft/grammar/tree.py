"""Parse trees: brackets, derivations, and plain data. No method recurses, so that a tree may have any depth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from weft.errors import DataError
from weft.grammar.rules import Rule, Symbol, Terminal

BRACKETS: Final = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
"""How a treebank writes a word that is a bracket."""

MAX_JSON_DEPTH: Final = 300
"""Levels of a tree as nested JSON; readers of JSON limit the depth of what they read."""

Node: TypeAlias = "Tree | str"
"""A subtree, or a word."""


class Tree:
    """A name with its children: trees and words, none for an empty rule.

    The root of a tree that was parsed with a probabilistic grammar has the probabilities of all its rules, in the order
    of the leftmost derivation. Equal trees have equal names and words.
    """

    __slots__ = ("children", "label", "log_probability", "probability")

    def __init__(self, label: str, children: tuple[Node, ...], chances: tuple[float, ...] | None = None) -> None:
        self.label, self.children = label, children
        self.probability: float | None = None
        """The product of the probabilities of all rules; zero if it is below the smallest float."""
        self.log_probability: float | None = None
        if chances is not None:
            self.probability = math.prod(chances)
            self.log_probability = math.fsum(map(math.log, chances))

    def preorder(self) -> Iterator[tuple[Node, int, int]]:
        """Yield each node, parents before children and left before right: node, depth, number of its parent (or -1)."""
        stack: list[tuple[Node, int, int]] = [(self, 0, -1)]
        number = 0
        while stack:
            node, depth, parent = stack.pop()
            yield node, depth, parent
            if isinstance(node, Tree):
                stack += [(child, depth + 1, number) for child in reversed(node.children)]
            number += 1

    def words(self) -> list[str]:
        """The words below, from left to right."""
        return [node for node, _, _ in self.preorder() if isinstance(node, str)]

    def rules(self) -> Iterator[Rule]:
        """Yield the rules of the tree in the order of its leftmost derivation, without probabilities."""
        for node, _, _ in self.preorder():
            if isinstance(node, Tree):
                yield Rule(
                    node.label, tuple(Terminal(one) if isinstance(one, str) else one.label for one in node.children)
                )

    def brackets(self) -> str:
        """The tree on one line as a treebank has it: (NP (Det the) (N cat)). Brackets in words are -LRB- and -RRB-."""
        parts: list[str] = []
        open_nodes: list[int] = []  # children that each open node still has to write
        for node, _, _ in self.preorder():
            if parts:
                parts.append(" ")
            if isinstance(node, Tree):
                parts.append(f"({_token(node.label)}")
                open_nodes.append(len(node.children))
            else:
                parts.append(_token(node))
                open_nodes[-1] -= 1
            while open_nodes and open_nodes[-1] == 0:
                parts.append(")")
                open_nodes.pop()
                if open_nodes:
                    open_nodes[-1] -= 1
        return "".join(parts)

    __str__ = brackets

    def __repr__(self) -> str:
        return f"Tree({self.brackets()!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._shape() == other._shape()

    def __hash__(self) -> int:
        return hash(tuple(self._shape()))

    def _shape(self) -> list[tuple[str, int]]:
        """Labels with their numbers of children, words with -1, in preorder: equal for equal trees only."""
        return [
            (node.label, len(node.children)) if isinstance(node, Tree) else (node, -1) for node, _, _ in self.preorder()
        ]

    def record(self) -> dict[str, Any]:
        """The tree as nested plain data: {"label": "N", "children": ["cat"]}."""
        root: dict[str, Any] = {"label": self.label, "children": []}
        made: list[Any] = []
        for node, depth, parent in self.preorder():
            if depth > MAX_JSON_DEPTH:
                cure = "leave out --json, or print --brackets"
                raise DataError(f"a tree of over {MAX_JSON_DEPTH} levels is too deep for JSON", cure=cure)
            one = node if isinstance(node, str) else {"label": node.label, "children": []} if made else root
            if made:
                made[parent]["children"].append(one)
            made.append(one)
        return root

    def derivation(self) -> list[DerivationStep]:
        """The leftmost derivation, top-down: each step rewrites the leftmost name by one rule."""
        done: list[Symbol] = []
        rest: list[Node] = [self]  # from right to left
        steps: list[DerivationStep] = []
        while rest:
            node = rest.pop()
            if isinstance(node, str):
                done.append(Terminal(node))
                continue
            rest += reversed(node.children)
            rule = Rule(
                node.label, tuple(Terminal(one) if isinstance(one, str) else one.label for one in node.children)
            )
            form = [*done, *(Terminal(one) if isinstance(one, str) else one.label for one in reversed(rest))]
            steps.append(DerivationStep(rule, tuple(form)))
        return steps


@dataclass(frozen=True)
class DerivationStep:
    """A step of a derivation: the rule, and the names and words after it."""

    rule: Rule
    form: tuple[Symbol, ...]

    def __str__(self) -> str:
        """The names and words, separated by blanks; ε if there are none."""
        return " ".join(one if isinstance(one, str) else one.text for one in self.form) or "ε"


def show_derivation(tree: Tree) -> str:
    """The derivation as lines: the names and words after each step, and the rule on the right."""
    from rich.cells import cell_len

    from weft.console import visible

    steps = [(visible(str(step)), visible(str(step.rule))) for step in tree.derivation()]
    width = min(60, max(cell_len(form) for form, _ in steps))
    return "\n".join(
        [visible(tree.label), *(f"⇒ {form}{' ' * max(0, width - cell_len(form))}   {rule}" for form, rule in steps)]
    )


def _token(text: str) -> str:
    """A word or name inside brackets: brackets are spelt out, blanks become underscores."""
    return BRACKETS.get(text) or re.sub(r"\s", "_", text).replace("(", "-LRB-").replace(")", "-RRB-") or "_"
