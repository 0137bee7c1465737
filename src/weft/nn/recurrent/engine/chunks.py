"""The choice between the loop over time and the scan in chunks, for a step that is linear in its state.

A scan reads everything twice, so it pays where the rows and columns of a batch leave processors idle. That follows from
the shapes and the machine; backend = "loop" or "scan" forces one of them.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Method = Literal["auto", "loop", "scan"]

CPU_SCAN_COST: Final = 2.0
GPU_SCAN_COST: Final = 1.7
"""The work of a scan for each step of a loop, forward and backward, measured. In one thread of a CPU it is 1.3 to 1.5;
a second thread wins that back only where the numbers fit into the caches."""

MIN_STEPS: Final = 128
"""Steps of a chunk that a scan is worth its start for."""


class Chunks(NamedTuple):
    """Into how many chunks a row's time is cut, 1 for a loop, and the steps of each."""

    number: int
    steps: int


class Machine(NamedTuple):
    """How many tasks run at once, how many for each of these keep it busy, and the cost of a scan."""

    at_once: int
    for_each: int
    scan_cost: float


def choose_chunks(method: Method, tasks: int, time: int, machine: Machine) -> Chunks:
    """tasks: rows times blocks of columns, of all directions."""
    wanted = -(-machine.at_once * machine.for_each // max(1, tasks))
    if method == "scan":
        return _cut(time, max(2, min(wanted, time // MIN_STEPS)))
    if method == "loop" or tasks * machine.scan_cost >= machine.at_once:
        return Chunks(1, max(1, time))
    return _cut(time, max(1, min(wanted, time // MIN_STEPS)))


def _cut(time: int, count: int) -> Chunks:
    steps = max(1, -(-time // count))
    return Chunks(max(1, -(-time // steps)), steps)


class Run(NamedTuple):
    """The shape of a pass, and how it ran."""

    batch: int
    time: int
    chunks: Chunks

    def __str__(self) -> str:
        rows = f"{self.batch:,} row{'s' if self.batch != 1 else ''} of {self.time:,} steps"
        if self.chunks.number == 1:
            return f"{rows} ran as a loop"
        return f"{rows} ran as a scan in {self.chunks.number:,} chunks of {self.chunks.steps:,} steps"
