"""Where the values of a graph lie while it runs: values that are not needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from weft.export.c.sizes import elements, estimate
from weft.export.graph import Size, Value

Scratch = tuple[Value, int, int]
"""A value with the numbers of the first and the last step that need it."""


@dataclass
class Slot:
    """A piece of memory, as large as the largest value that lies in it at some time."""

    shapes: list[tuple[Size, ...]] = field(default_factory=list)
    free_from: int = 0

    @property
    def numbers(self) -> int:
        return max(estimate(shape) for shape in self.shapes)

    def size(self) -> str:
        """Its number of elements as an expression of C; all elements have four bytes."""
        fixed = [int(elements(shape)) for shape in self.shapes if all(isinstance(size, int) for size in shape)]
        found = list(dict.fromkeys(elements(s) for s in self.shapes if any(isinstance(size, str) for size in s)))
        found += [str(max(fixed))] if fixed else []
        text = f"(uint64_t){found[0]}"
        for other in found[1:]:
            text = f"weft_larger({text}, (uint64_t){other})"
        return text


def place(values: Sequence[Scratch]) -> tuple[list[Slot], dict[Value, int]]:
    """Slots, and the number of the slot of each value: the free slot that fits best, or else a new one."""
    slots: list[Slot] = []
    found: dict[Value, int] = {}
    for value, first, last in sorted(values, key=lambda one: one[1]):
        wanted = max(1, estimate(value.shape))
        free = [number for number, slot in enumerate(slots) if slot.free_from <= first]
        if free:
            best = min(free, key=lambda number: (abs(slots[number].numbers - wanted), number))
        else:
            slots.append(Slot())
            best = len(slots) - 1
        slots[best].shapes.append(value.shape)
        slots[best].free_from = last + 1
        found[value] = best
    return slots, found


def estimated(slots: Sequence[Slot], tokens: int) -> int:
    """The bytes of slots where every length is so many tokens."""
    return sum(4 * max(_numbers(shape, tokens) for shape in slot.shapes) for slot in slots)


def _numbers(shape: tuple[Size, ...], tokens: int) -> int:
    return prod(size if isinstance(size, int) else tokens for size in shape)
