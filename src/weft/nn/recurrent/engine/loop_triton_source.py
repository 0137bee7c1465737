"""The Triton source of a step without products: each lane's loop over all of time, and its scan in chunks.

A program takes some columns of one row, or of one chunk of its steps, through time; the state stays in registers. A
scan has the three parts of loop_source.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from weft.nn.recurrent.engine.lane_triton import LaneKernel
from weft.nn.recurrent.engine.loop_source import loop_arguments, loop_columns
from weft.nn.recurrent.engine.triton_source import PREAMBLE

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels


class LoopKernel(NamedTuple):
    """A kernel of the text, the columns of its lane, and whether it runs for each chunk by itself."""

    name: str
    width: int
    each_chunk: bool


class TritonLoopSource:
    """The text for one direction or for two, and the kernels of each pass in the order in which they run."""

    def __init__(self, plan: Kernels, directions: int) -> None:
        self.plan, self.directions = plan, directions
        self.columns = loop_columns(plan)
        self.given = {backward: loop_arguments(plan, backward=backward) for backward in (False, True)}
        self.loops: dict[bool, list[LoopKernel]] = {False: [], True: []}
        self.scans: dict[bool, list[LoopKernel]] = {False: [], True: []}
        """The kernels that run before a lane's loop where time is cut into chunks."""

    @cached_property
    def text(self) -> str:
        """The whole module."""
        return PREAMBLE + "\n\n".join(text for backward in (False, True) for text in self._pass(backward=backward))

    def _pass(self, *, backward: bool) -> list[str]:
        texts = []
        for number, lane in enumerate(self.plan.lanes or []):
            name = f"{'backward' if backward else 'forward'}{number}"
            if self.plan.scans is not None and lane.pieces:
                scan = self.plan.scans[number]
                order = scan.backward if backward else scan.forward
                for level in range(max(order.levels) + 1):
                    summary, carry = (f"{name}_level{level}_{part}" for part in ("summary", "carry"))
                    texts.append(LaneKernel(self, lane, backward=backward).summary(summary, order, level))
                    texts.append(LaneKernel(self, lane, backward=backward).carry(carry, order, level))
                    self.scans[backward] += [
                        LoopKernel(summary, lane.width, each_chunk=True),
                        LoopKernel(carry, lane.width, each_chunk=False),
                    ]
            texts.append(LaneKernel(self, lane, backward=backward).loop(name))
            self.loops[backward].append(LoopKernel(name, lane.width, each_chunk=True))
        return texts
