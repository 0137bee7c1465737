"""The inside probability: the sum over all trees, infinitely many included, in log space.

    P(v) = Σ over the choices of v: p(rule) Π over its children: P(child)

Nodes are computed children first. Nodes that contain each other have the same words i+1 … k. For i < k their equations
are linear in each other, because the other child of a choice is empty: P = A P + b. For i = k they may be quadratic;
Newton's method from zero rises to their smallest solution, which is the sum over all trees.
"""

from __future__ import annotations

import math
from typing import Final

from weft.grammar.forest import Choice, Forest
from weft.grammar.rules import Grammar

NEWTON_STEPS: Final = 200
"""Steps of Newton's method. Each doubles the correct digits, or adds one bit if the solution is a double root."""


def inside(forest: Forest, grammar: Grammar) -> float:
    """The log-probability of the sentence; math.inf if the sum of its trees diverges.

    It can diverge only in a grammar whose probabilities sum to a little more than one.
    """
    logs = [0.0] * (len(grammar.rules) + 1)  # the last is NO_RULE
    for number, rule in enumerate(grammar.rules):
        assert rule.probability is not None, "the grammar has no probabilities"
        logs[number] = math.log(rule.probability)
    found = [0.0] * len(forest)
    for group in forest.components:
        if not forest.is_cycle(group):
            (node,) = group
            if choices := forest.choices[node]:
                found[node] = _log_sum(_log_terms(choices, logs, found))
        else:
            _solve(forest, group, logs, found)
    return found[0]


def _log_terms(choices: list[Choice], logs: list[float], found: list[float]) -> list[float]:
    """The log-probability of each choice; a choice has two children at most, and most have two."""
    return [
        logs[rule] + found[children[0]] + found[children[1]]
        if len(children) == 2
        else logs[rule] + sum([found[child] for child in children])
        for rule, children in choices
    ]


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs)) if math.isfinite(top) else top


def _solve(forest: Forest, group: list[int], logs: list[float], found: list[float]) -> None:
    """Set the log-probabilities of nodes that contain each other."""
    index = {node: number for number, node in enumerate(group)}
    # Terms of each node's sum: log of what is known, and the nodes of the group that it is multiplied with.
    terms: list[list[tuple[float, list[int]]]] = []
    for node in group:
        terms.append([])
        for rule, children in forest.choices[node]:
            known = logs[rule] + sum(found[child] for child in children if child not in index)
            terms[-1].append((known, [index[child] for child in children if child in index]))
    # Terms without nodes of the group may be tiny for long sentences; in a linear system they are all scaled alike.
    linear = all(len(inside) < 2 for row in terms for _, inside in row)
    shift = max(known for row in terms for known, inside in row if not inside) if linear else 0.0
    scaled = [[(math.exp(known if inside else known - shift), inside) for known, inside in row] for row in terms]
    values = _newton(scaled)
    for node, value in zip(group, values, strict=True):
        found[node] = shift + math.log(value) if math.isfinite(value) and value > 0 else math.inf


def _newton(terms: list[list[tuple[float, list[int]]]]) -> list[float]:
    """The smallest solution of x = f(x), where f_i is a sum of terms c · Π x_j over at most two j.

    x ← x + (I - f'(x))⁻¹ (f(x) - x); a linear system is solved by the first step.
    """
    import numpy as np

    size = len(terms)
    x = np.zeros(size)
    for _ in range(NEWTON_STEPS):
        value, slope = np.zeros(size), np.zeros((size, size))
        for i, row in enumerate(terms):
            for c, inside in row:
                value[i] += c * math.prod(float(x[j]) for j in inside)
                for position, j in enumerate(inside):
                    others = inside[:position] + inside[position + 1 :]
                    slope[i, j] += c * math.prod(float(x[k]) for k in others)
        try:
            step = np.linalg.solve(np.eye(size) - slope, value - x)
        except np.linalg.LinAlgError:  # a double root is reached, or the sum diverges
            return list(map(float, x)) if x.any() else [math.inf] * size
        if not x.any() and (step < 0).any():  # the first step of a sum that converges is never negative
            return [math.inf] * size
        x = np.maximum(x, x + step)  # rounding must not take back what is certain
        if (step <= 1e-15 * x).all():
            break
    return list(map(float, x))
