"""Bracketed trees, as in the Penn Treebank, and the grammar that they contain.

    ( (S (NP (Det the) (N cat)) (VP (V sleeps))) )

Line breaks mean nothing, several trees may follow each other, and the outer brackets without a name may be left out. A
word -LRB- is a bracket "(" and so on. `induce` counts: P(A -> α | A) = count(A -> α) / count(A).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import Final

from weft.errors import DataError
from weft.grammar.files import read_lines
from weft.grammar.rules import Grammar, Rule, Symbol
from weft.grammar.tree import BRACKETS, Node, Tree
from weft.limits import TREEBANK_FILE_BYTES

_TOKEN: Final = re.compile(r"[()]|[^\s()]+")
_WORDS: Final = {spelling: bracket for bracket, spelling in BRACKETS.items()}
EMPTY: Final = "-NONE-"
"""The label of words that are not said: traces and omitted words."""

ROOTS: Final = ("ROOT", "TOP", "START")


def read_trees(path: str | PathLike[str], *, strip: bool = False) -> Iterator[Tree]:
    """Yield the trees of a file in UTF-8; `-` is standard input.

    With `strip`, function tags and indices go (NP-SBJ-1 becomes NP), and so does what stands for nothing said
    (-NONE-). Raises a DataError with file, line and cure.
    """
    name = fspath(path)
    yield from trees_from_lines(read_lines(name, most=TREEBANK_FILE_BYTES), name=name, strip=strip)


def trees_from_lines(lines: Iterable[str], *, name: str = "trees", strip: bool = False) -> Iterator[Tree]:
    """Yield the trees of some lines; `name` stands for the file in messages."""
    open_trees: list[tuple[str | None, list[Node], int]] = []  # label, children, line
    opened = False  # whether the last token was an opening bracket, so that a label must follow
    number = 0
    for number, line in enumerate(lines, 1):
        place = f"{name}:{number}"
        for token in _TOKEN.findall(line):
            if token == "(":
                open_trees.append((None, [], number))
                opened = True
                continue
            if token == ")":
                if not open_trees:
                    raise DataError(") without (", where=place, cure="remove it, or open the tree before it")
                label, children, begun = open_trees.pop()
                if (tree := _close(label, children, f"{name}:{begun}", outer=not open_trees)) is None:
                    pass
                elif open_trees:
                    open_trees[-1][1].append(tree)
                elif (stripped := _strip(tree) if strip else tree) is not None:
                    yield stripped
            elif opened:
                open_trees[-1] = (token, [], open_trees[-1][2])
            elif not open_trees:
                raise DataError(f'"{token}" outside of brackets', where=place, cure="write trees as (S (NP …) (VP …))")
            else:
                open_trees[-1][1].append(_WORDS.get(token, token))
            opened = False
    if open_trees:
        what = f"the tree that begins here is not closed: {len(open_trees)} ) missing at the end"
        raise DataError(what, where=f"{name}:{open_trees[0][2]}", cure="close it, or remove the rest of the file")


def _close(label: str | None, children: list[Node], place: str, *, outer: bool) -> Tree | None:
    """The tree of a pair of brackets; for outer brackets without a name, the tree inside them."""
    if label is not None:
        return Tree(label, tuple(children))
    if not outer:
        raise DataError("brackets without a name", where=place, cure="write the name behind the bracket: (NP …)")
    if not children:
        return None
    if len(children) > 1 or not isinstance(children[0], Tree):
        cure = "put one tree between brackets without a name"
        raise DataError(f"{len(children)} trees in brackets without a name", where=place, cure=cure)
    return children[0]


def _strip(tree: Tree) -> Tree | None:
    """The tree without function tags, and without the parts that contain no word that is said."""
    nodes = list(tree.preorder())
    kept: list[list[Node]] = [[] for _ in nodes]
    for number in range(len(nodes) - 1, -1, -1):
        node, _, parent = nodes[number]
        if isinstance(node, str):
            made: Node | None = node
        elif node.label == EMPTY or not kept[number]:
            made = None
        else:
            made = Tree(_plain(node.label), tuple(reversed(kept[number])))
        if parent < 0:
            return made if isinstance(made, Tree) else None
        if made is not None:
            kept[parent].append(made)
    return None


def _plain(label: str) -> str:
    """NP-SBJ-1 and NP=2 become NP; -LRB- stays."""
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0] or label


def induce(trees: Iterable[Tree], *, start: str | None = None) -> Grammar:
    """The probabilistic grammar of some trees: each rule with its share among the rules of its left side.

    The start is the root of the trees. If their roots differ, it is a new name ROOT with a rule for each of them;
    `start` may name one of the labels instead.
    """
    counts: Counter[tuple[str, tuple[Symbol, ...]]] = Counter()
    roots: Counter[str] = Counter()
    for tree in trees:
        roots[tree.label] += 1
        counts.update((rule.left, rule.right) for rule in tree.rules())
    if not counts:
        raise DataError("no trees", cure="give at least one, such as (S (NP (N cats)) (VP (V sleep)))")
    if start is None and len(roots) > 1:
        names = {left for left, _ in counts}
        start = next(
            name for name in (*ROOTS, *(f"ROOT{number}" for number in range(len(names) + 1))) if name not in names
        )
        counts.update({(start, (root,)): count for root, count in roots.items()})
    totals: Counter[str] = Counter()
    for (left, _), count in counts.items():
        totals[left] += count
    first = start if start is not None else next(iter(roots))
    ranked = sorted(counts.items(), key=lambda item: (item[0][0] != first, item[0][0], -item[1]))
    return Grammar([Rule(left, right, count / totals[left]) for (left, right), count in ranked], start=first)
