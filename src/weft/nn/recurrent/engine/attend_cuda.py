"""The attention of a step on a GPU: which buffers it has, and how its kernels are launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.nn.kernels import power_of_two
from weft.nn.recurrent.engine.argument import KEYS, SOURCE_LENGTHS, VALUES, Argument, Kind
from weft.nn.recurrent.engine.triton_kernel import HEADER

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.triton_source import TritonSource

TILE: Final = 8192
"""Numbers of a block of keys or values: what the registers of a program hold."""

WARPS: Final = 8

FORWARD: Final = ("attend", Kind.QUERY, Kind.CONTEXT)
BACKWARD: Final = ("attend_back", Kind.GRAD_CONTEXT, Kind.GRAD_QUERY)
"""A kernel, and the fixed buffers that it reads and writes."""


class AttendKernels:
    """The kernels of the products that attend, and what they are compiled with."""

    def __init__(self, source: TritonSource) -> None:
        from weft.nn.recurrent.engine import attend_kernel

        self.kernels = {"attend": attend_kernel.attend, "attend_back": attend_kernel.attend_back}
        self.options = {number: self._options(source, number) for number in source.program.attends}
        for options in self.options.values():  # all tensors have their entry now
            for given in options.values():
                given["ENTRIES"] = 1 + len(source.table)

    def launch(self, number: int, name: str, grid: tuple[int, int], *given: Any, **rest: Any) -> None:
        """One kernel."""
        self.kernels[name][grid](*given, **self.options[number][name], **rest, num_warps=WARPS)

    def _options(self, source: TritonSource, number: int) -> dict[str, dict[str, Any]]:
        product = source.program.products[number]
        assert product.attention is not None
        over, scale, hard = product.attention
        depth, width = (power_of_two(size, least=16) for size in (product.depth, product.width))

        def entry(kind: Kind) -> int:
            return source.entry(Argument(kind, number))

        both = {
            "scale": scale, "HEADER": HEADER, "KEYS": source.entry(KEYS), "VALUES": source.entry(VALUES),
            "SOURCE": source.entry(SOURCE_LENGTHS), "WEIGHTS": entry(Kind.ATTENTION),
            "OVER": 0 if over is None else entry(Kind.OVER), "A": product.depth, "AP": depth, "V": product.width,
            "VP": width, "BLOCK": max(4, min(64, TILE // max(depth, width))),
        }  # fmt: skip
        back = {"QUERIES": 0, "GRAD_KEYS": 0, "GRAD_OVER": 0, "GRAD_SCORES": entry(Kind.GRAD_SCORES)}
        if over is not None:
            back |= {"QUERIES": entry(Kind.LEFTS), "GRAD_KEYS": source.entry(KEYS.gradient)}
            back |= {"GRAD_OVER": entry(Kind.GRAD_OVER)}
        return {"attend": both | {"HARD": hard}, "attend_back": both | back}
