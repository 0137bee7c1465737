"""`weft bench recurrence --long`: the recurrence h' = a ⊙ h + b alone, over many steps, beside other software.

Everybody gets the slopes a in (0, 1) and the inputs b (B, T, D) and returns all h; the gradients of a and b are
computed too. Nothing here is a matrix product. What is not installed, or cannot run here, is named with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from weft.bench.machine import choose_place
from weft.bench.recurrence.case import DTYPES, Size, dtype_names
from weft.bench.table import NOTHING
from weft.bench.timing import Contender, time_in_turn
from weft.errors import WeftError
from weft.nn import RNN, Cell
from weft.nn.recurrent.layer import Backend

LONG_SIZES: Final = {
    "cpu": (Size(16, 1024, 128), Size(4, 8192, 128), Size(1, 131_072, 64)),
    "cuda": (Size(64, 1024, 512), Size(16, 16_384, 128), Size(16, 2048, 1024), Size(8, 131_072, 1024)),
}
"""The default sizes: B, T, D."""

FLOAT_PASSES: Final = 8
"""Times that memory holds as many numbers as a are read or written: a, b and h forward; a, h, the gradient of h and
both results backward."""

SLOW_EVERY_ROUNDS: Final = 5
SLOW_SECONDS: Final = 1.0
"""Seconds of a pass above which a contender takes part in every fifth round only."""

Scan = Callable[[Tensor, Tensor], Tensor]
"""a, b (B, T, D) -> h (B, T, D)."""


class Unavailable(Exception):
    """Why a contender does not run here."""


class GivenRecurrence(Cell):
    """h' = a ⊙ h + b, with a and b side by side as the input."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=-1)
        h = a * h + b
        return h, h


@dataclass(frozen=True)
class LongFigures:
    """Seconds of one forward and backward pass by contender, and why others are missing."""

    size: Size
    dtype: str
    seconds: dict[str, float]
    missing: dict[str, str]

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        times = {name: 1000 * value for name, value in self.seconds.items()}
        return {"size": list(self.size), "dtype": self.dtype, "ms": times, "missing": self.missing}


def weft_scan(backend: Backend) -> Callable[[Size, torch.device], Scan]:
    def build(size: Size, device: torch.device) -> Scan:
        rnn = RNN(GivenRecurrence, 2 * size.hidden, size.hidden, backend=backend)
        return lambda a, b: rnn(torch.cat((a, b), dim=-1))[0]

    return build


def torch_scan(size: Size, device: torch.device) -> Scan:
    """torch.associative_scan, on a GPU compiled, as it is meant to be used."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def scan(a: Tensor, b: Tensor) -> Tensor:
        mode = "pointwise" if device.type == "cuda" else "generic"
        return associative_scan(combine, (a, b), dim=1, combine_mode=mode)[1]

    return torch.compile(scan) if device.type == "cuda" else scan


def accelerated_scan(size: Size, device: torch.device) -> Scan:
    """Its kernel of warps, which wants (B, D, T) and a power of two of steps."""
    found = _installed("accelerated_scan.warp", "accelerated-scan", device)
    if size.time & (size.time - 1):
        raise Unavailable("it takes a power of two of steps")

    def scan(a: Tensor, b: Tensor) -> Tensor:
        return found.scan(a.mT.contiguous(), b.mT.contiguous()).mT  # type: ignore[no-any-return]

    return scan


def flash_linear_attention(size: Size, device: torch.device) -> Scan:
    """The chunked kernel of HGRN, which takes the logarithms of the slopes."""
    found = _installed("fla.ops.hgrn", "flash-linear-attention", device)
    return lambda a, b: found.chunk_hgrn(b, a.log())[0]


def _installed(module: str, package: str, device: torch.device) -> Any:
    if device.type != "cuda":
        raise Unavailable("it needs a GPU with CUDA")
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Unavailable(f"it is not installed (pip install {package})") from None


CONTENDERS: Final[dict[str, Callable[[Size, torch.device], Scan]]] = {
    "weft": weft_scan("auto"),
    "weft loop": weft_scan("loop"),
    "weft scan": weft_scan("scan"),
    "torch scan": torch_scan,
    "accelerated-scan": accelerated_scan,
    "fla hgrn": flash_linear_attention,
}


def measure_long(size: Size, dtype: str, device: torch.device, *, repeats: int) -> LongFigures:
    """Time all contenders that run here, in turn."""
    torch.manual_seed(0)
    a = torch.rand(size, device=device).to(DTYPES[dtype]).clamp(0.01, 0.99).requires_grad_()
    b = torch.randn(size, device=device, dtype=DTYPES[dtype], requires_grad=True)
    gradient = torch.randn(size, device=device, dtype=DTYPES[dtype])
    running, missing = dict[str, Contender](), dict[str, str]()
    for name, build in CONTENDERS.items():
        try:
            scan = build(size, device)
            run = _pass(scan, a, b, gradient)
            seconds = time_in_turn({name: Contender(run)}, rounds=1, device=device)[name]
            running[name] = Contender(run, every=SLOW_EVERY_ROUNDS if seconds > SLOW_SECONDS else 1)
        except (Unavailable, WeftError, RuntimeError, ValueError) as error:
            missing[name] = str(error).partition("\n")[0]
    running["limit"] = Contender(_copies(a))
    return LongFigures(size, dtype, time_in_turn(running, rounds=repeats, device=device), missing)


def _pass(scan: Scan, a: Tensor, b: Tensor, gradient: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(scan(a, b), (a, b), gradient)


def _copies(a: Tensor) -> Callable[[], None]:
    """Copies that read and write as many numbers as a pass must."""
    source = a.detach()
    target = torch.empty_like(source)

    def run() -> None:
        for _ in range(FLOAT_PASSES // 2):
            target.copy_(source)

    return run


def long_cases(sizes: Sequence[str], dtypes: Sequence[str], device: str) -> list[tuple[Size, str, torch.device]]:
    """Every size with every type; by default sizes that suit the device."""
    place = choose_place(device)
    chosen = [Size.parse(text) for text in sizes] or LONG_SIZES[place.type]
    return [(size, dtype, place) for size in chosen for dtype in dtype_names(dtypes, place)]


def tabulate_long(rows: Sequence[LongFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines: milliseconds of each contender that ran at some size."""
    names = [name for name in (*CONTENDERS, "limit") if any(name in row.seconds for row in rows)]
    lines = []
    for row in rows:
        times = [f"{1000 * row.seconds[name]:.3g}" if name in row.seconds else NOTHING for name in names]
        lines.append([str(row.size), row.dtype, *times])
    return ["B,T,D", "dtype", *(f"{name} ms" for name in names)], lines


def long_remarks(rows: Sequence[LongFigures]) -> list[str]:
    """Return why a contender is missing, each reason once."""
    return list(dict.fromkeys(f"without {name}: {why}" for row in rows for name, why in row.missing.items()))
