"""Shapes of values with named axes, and which nodes a graph needs."""

from __future__ import annotations

from collections.abc import Iterable

from weft.export.graph.graph import Node, Size, Value

Shape = tuple[Size, ...]


def needed(nodes: tuple[Node, ...], outputs: Iterable[Value]) -> tuple[Node, ...]:
    """The nodes that outputs depend on."""
    wanted, kept = set(outputs), list[Node]()
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= set(node.inputs)
            kept.append(node)
    return tuple(reversed(kept))


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of an elementwise result, as in numpy; a named axis meets only itself or 1."""
    size = max(len(a), len(b))
    pairs = zip((1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b, strict=True)
    found: list[Size] = []
    for one, other in pairs:
        assert one == other or 1 in (one, other), (a, b)
        found.append(other if one == 1 else one)
    return tuple(found)


def groups(shape: Shape) -> list[Size]:
    """Named axes, and between them the product of the fixed ones."""
    found: list[Size] = [1]
    for size in shape:
        if isinstance(size, str):
            found += [size, 1]
        else:
            found[-1] *= size
    return found


def without(shape: Shape, axis: int) -> Shape:
    """A shape without one of its axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def fixed(size: Size) -> int:
    """The size of an axis that must be a number."""
    assert isinstance(size, int), f"the axis {size} must be a number"
    return size
