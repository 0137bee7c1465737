"""Persistent kernels: a step with one product, all of time in one launch, in half precision."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from weft.nn.native import nvrtc
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.persistent_plan import EXCHANGE, MATRIX, PersistentPlan, plan_persistent
from weft.nn.recurrent.engine.persistent_source import PersistentSource, Tiling, whole_text

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels, StepCounts, Tensors

HISTORY: Final = Argument(Kind.HISTORY, 0)
START: Final = Argument(Kind.START, 0)

EMPTY: Final = -1
"""The bits of a number that has not been written yet: no rounding results in this NaN."""

MAX_THREADS: Final = 512
MAX_PAIRS: Final = 4
"""Rows that a thread computes a unit of, at most."""

SHARED_BYTES: Final = 200 * 1024
"""Shared memory of a block, at most."""


class Launch(NamedTuple):
    """A kernel's text and name, what it is given, and how many blocks of how many threads run it."""

    text: str
    name: str
    call: ctypes.Structure
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int


class PersistentKernels:
    """The persistent kernels of one plan; raises Unsuited where there are none."""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.persistent: PersistentPlan = plan_persistent(plan)
        self.sources = {backward: PersistentSource(self.persistent, backward=backward) for backward in (False, True)}
        self._texts: dict[object, str] = {}

    def forward(
        self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], tiling: Tiling, *, keep: bool
    ) -> None:
        """Fill histories, emitted values, last states and, with `keep`, what is saved."""
        self._run(tensors, steps, reverse, tiling, backward=False, keep=keep)

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool], tiling: Tiling) -> None:
        """Fill the gradients of hoisted values, products, vectors and first states, and the left sides."""
        self._run(tensors, steps, reverse, tiling, backward=True, keep=True)

    def compile(self, tensors: list[Tensors], tilings: list[Tiling], *, backward: bool) -> None:
        """Compile the kernels of several tilings side by side."""
        like, start = tensors[0][HISTORY], tensors[0][START].dtype
        texts = [self._text(self.sources[backward], tiling, like.dtype, start) for tiling in tilings]
        architecture = nvrtc.architecture_of(like.device)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda text: nvrtc.compile_text(text, architecture), texts))

    def tilings(
        self, batch: int, directions: int, processors: int, *, backward: bool, shared_bytes: int = SHARED_BYTES
    ) -> list[Tiling]:
        """The tilings of which all blocks fit on a device at once, the most promising first; `shared_bytes` is the
        shared memory that a block may have there."""
        one, width = self.persistent.one(backward=backward), self.persistent.width
        found = []
        for units, rows, k_split, n_split in _shapes():
            tiling = Tiling(units, rows, k_split, n_split)
            columns = max(1, len(one.leaves)) * units
            pairs = -(-rows * units // tiling.threads)
            if width % units or tiling.threads > MAX_THREADS or pairs > MAX_PAIRS:
                continue
            if pairs > 1 and (rows * units % tiling.threads or tiling.threads % units):
                continue
            if n_split > 1 and columns % (16 * n_split):
                continue
            blocks = width // units * -(-batch // rows) * directions
            if blocks > processors or k_split * 32 > max(32, one.depth):
                continue
            if _registers(one.depth, columns, tiling) > min(255, 65536 // tiling.threads) - 45:
                continue
            if _shared_bytes(columns, tiling) > min(shared_bytes, SHARED_BYTES):
                continue
            found.append((_cost(one.depth, columns, width, batch, directions, tiling), tiling))
        return [tiling for _, tiling in sorted(found)]

    def _run(
        self,
        tensors: list[Tensors],
        steps: StepCounts,
        reverse: list[bool],
        tiling: Tiling,
        *,
        backward: bool,
        keep: bool,
    ) -> None:
        source, like = self.sources[backward], tensors[0][HISTORY]
        alive: list[Tensor] = []
        tables = [self._table(source, mine, alive, backward=backward) for mine in tensors]
        longs = [
            None if part is None else part.to(like.device, torch.int64).contiguous()
            for part in (steps.lengths, steps.first)
        ]
        alive += [part for part in longs if part is not None]
        start = tensors[0][START].dtype
        text = self._text(source, tiling, like.dtype, start)
        structure = _structure(len(source.arguments))
        call = structure(
            steps.batch, steps.time, steps.all_steps, int(keep), sum(back << d for d, back in enumerate(reverse)),
            *(0 if part is None else part.data_ptr() for part in longs),
        )  # fmt: skip
        for direction, table in enumerate(tables):
            call.tensors[direction][:] = table
        width = self.persistent.width
        grid = (width // tiling.units, -(-steps.batch // tiling.rows), len(tensors))
        columns = max(1, len(source.mine.leaves)) * tiling.units
        name = "backward" if backward else "forward"
        launch(Launch(text, name, call, grid, tiling.threads, _shared_bytes(columns, tiling)), like.device)

    def _table(self, source: PersistentSource, mine: Tensors, alive: list[Tensor], *, backward: bool) -> list[int]:
        """The addresses of one direction's tensors. The buffer of the exchange is filled before."""
        given = dict(mine)
        like = mine[HISTORY]
        given[MATRIX] = self._matrix(mine, backward=backward)
        if source.exchange == EXCHANGE:
            given[EXCHANGE] = like.new_empty(like.size(0), source.mine.depth)
        given[source.exchange].view(torch.int16).fill_(EMPTY)
        addresses = []
        for argument in source.arguments:
            tensor = given.get(argument)
            if tensor is not None and argument.is_float32:
                tensor = tensor.to(torch.float32)
            if tensor is not None:
                tensor = tensor.contiguous()
                alive.append(tensor)
            addresses.append(0 if tensor is None else tensor.data_ptr())
        return addresses

    def _matrix(self, mine: Tensors, *, backward: bool) -> Tensor:
        """The weights of all products as one matrix (columns of the result, depth), of one direction."""
        group, like = self.persistent.group, mine[HISTORY]
        parts = [(number, mine[Argument(Kind.WEIGHT, number)]) for number in group.products]
        if len(parts) == 1:
            weight = parts[0][1]
            return (weight if backward else weight.t()).to(like.dtype).contiguous()
        whole = like.new_zeros(group.width, group.depth)
        for number, part in parts:
            down, across = group.result_at(number), group.left_at(number)
            whole[down : down + part.shape[1], across : across + part.shape[0]] = part.t()
        return whole.t().contiguous() if backward else whole

    def _text(self, source: PersistentSource, tiling: Tiling, dtype: torch.dtype, start: torch.dtype) -> str:
        key = (source.backward, tiling, dtype, start)
        if key not in self._texts:
            self._texts[key] = whole_text(
                source, tiling, bfloat16=dtype == torch.bfloat16, start_float=start == torch.float32
            )
        return self._texts[key]


def launch(made: Launch, device: torch.device) -> None:
    """Compile and queue a kernel."""
    function = nvrtc.load_function(made.text, made.name, device, shared_bytes=made.shared_bytes)
    nvrtc.launch_cooperative(function, made.grid, made.threads, made.call, device)


@cache
def _structure(arguments: int) -> Any:
    """The structure that a kernel is given."""
    numbers = ("batch", "time", "positions", "keep", "reverse", "lengths", "firsts")
    fields = [(name, ctypes.c_longlong) for name in numbers] + [("tensors", (ctypes.c_longlong * arguments) * 2)]
    return type("Call", (ctypes.Structure,), {"_fields_": fields})


def _shapes() -> Iterator[tuple[int, int, int, int]]:
    for units in (8, 16, 32, 64):
        for rows in (8, 16, 32, 64):
            for k_split in (1, 2, 4, 8, 16):
                for n_split in (1, 2, 4):
                    yield units, rows, k_split, n_split


def _sizes(depth: int, columns: int, tiling: Tiling) -> tuple[int, int, int]:
    """Blocks of the depth and of columns for each warp, and of rows."""
    return -(-depth // 32 // tiling.k_split), -(-columns // (16 * tiling.n_split)), tiling.rows // 8


def _registers(depth: int, columns: int, tiling: Tiling) -> int:
    """Registers of a thread that hold weights, left sides and sums."""
    blocks, tiles, rows = _sizes(depth, columns, tiling)
    return blocks * 8 * tiles + rows * blocks * 4 + tiles * rows * 4


def _shared_bytes(columns: int, tiling: Tiling) -> int:
    _, tiles, _ = _sizes(32, columns, tiling)
    return 2 * 4 * tiling.k_split * tiling.n_split * tiles * 16 * (tiling.rows + 2)


def _cost(depth: int, columns: int, width: int, batch: int, directions: int, tiling: Tiling) -> float:
    """The microseconds of a step on an H200, to a fifth: most of it goes with what all blocks load from each other."""
    blocks, tiles, rows = _sizes(depth, columns, tiling)
    warps = tiling.k_split * tiling.n_split
    all_blocks = width // tiling.units * -(-batch // tiling.rows) * directions
    megabytes = 2e-6 * all_blocks * tiling.rows * depth * tiling.n_split
    readers = width // tiling.units * tiling.n_split
    products = 2 * blocks * tiles * rows
    sums = tiling.k_split * (columns // tiling.units) * -(-tiling.units * tiling.rows // 32)
    return 1.06 + 0.35 * megabytes + 0.0033 * readers + 0.0042 * products + 0.0041 * sums + 0.021 * warps
