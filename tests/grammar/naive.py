"""Plain reference computations for grammars: fixpoints over all (name, i, k), by the definitions and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TypeVar

from weft.grammar import Grammar, Terminal

Value = TypeVar("Value")

MAX_COUNT = 10**40
"""Counts stop here, because those of infinitely many trees grow doubly exponentially with the height."""


def fixpoint(
    grammar: Grammar,
    words: list[str],
    *,
    zero: Value,
    one: Value,
    add: Callable[[Value, Value], Value],
    times: Callable[[Value, Value], Value],
    weight: Callable[[float | None], Value],
    rounds: int,
) -> list[Value]:
    """The value of the sentence over all trees of height at most 1, 2, … rounds."""
    n = len(words)
    values: dict[tuple[str, int, int], Value] = {}
    history = []
    for _ in range(rounds):
        after: dict[tuple[str, int, int], Value] = {}
        for rule in grammar.rules:
            for i in range(n + 1):
                # ends[k]: the value of the symbols so far over the words i+1 … k
                ends = {i: weight(rule.probability)}
                for symbol in rule.right:
                    following: dict[int, Value] = {}
                    for j, value in ends.items():
                        for k in range(j, n + 1):
                            if isinstance(symbol, Terminal):
                                part = one if k == j + 1 and words[j] == symbol.text else zero
                            else:
                                part = values.get((symbol, j, k), zero)
                            if part != zero:
                                following[k] = add(following.get(k, zero), times(value, part))
                    ends = following
                for k, value in ends.items():
                    key = rule.left, i, k
                    after[key] = add(after.get(key, zero), value)
        values = after
        history.append(values.get((grammar.start, 0, n), zero))
    return history


def counts(grammar: Grammar, words: list[str], rounds: int) -> list[int]:
    """The number of trees of height at most 1, 2, …; without end it grows for ever."""
    return fixpoint(
        grammar,
        words,
        zero=0,
        one=1,
        add=lambda a, b: min(a + b, MAX_COUNT),
        times=lambda a, b: min(a * b, MAX_COUNT),
        weight=lambda _: 1,
        rounds=rounds,
    )


def inside(grammar: Grammar, words: list[str], rounds: int) -> float:
    """The probability of all trees of a bounded height."""
    return fixpoint(
        grammar,
        words,
        zero=0.0,
        one=1.0,
        add=lambda a, b: a + b,
        times=lambda a, b: a * b,
        weight=lambda p: float(p or 0),
        rounds=rounds,
    )[-1]


def best(grammar: Grammar, words: list[str], rounds: int) -> float:
    """The probability of the best tree of a bounded height."""
    return fixpoint(
        grammar,
        words,
        zero=0.0,
        one=1.0,
        add=max,
        times=lambda a, b: a * b,
        weight=lambda p: float(p or 0),
        rounds=rounds,
    )[-1]


def probability(grammar: Grammar, tree: object) -> float:
    """The product of the probabilities of the rules of a tree."""
    chances = {(rule.left, rule.right): rule.probability for rule in grammar.rules}
    used = [chances[rule.left, rule.right] for rule in tree.rules()]  # type: ignore[attr-defined]
    return reduce(lambda a, b: a * b, (float(p or math.nan) for p in used), 1.0)
