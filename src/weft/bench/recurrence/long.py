"""`weft bench recurrence --long`: the recurrence h' = a ⊙ h + b alone, over many steps, beside other software.

Everybody gets the slopes a in (0, 1) and the inputs b in the form and order that suit it best, made before the clock
starts, and returns all h and the gradients of what it got. Nothing here is a matrix product. Who computes something
else than the recurrence has no time; what is not installed, or cannot run here, is named with the reason.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
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

TOLERANCE: Final = {"float32": 1e-3, "bf16": 0.05, "fp16": 0.05}
"""How far h and the gradients may be from the recurrence in float32: the norm of the difference ÷ the norm."""


class Unavailable(Exception):
    """Why a contender does not run here."""


class GivenRecurrence(Cell):
    """h' = a ⊙ h + b, with a and b side by side as the input."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=-1)
        h = a * h + b
        return h, h


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The recurrence by some software, and the form in which it takes and returns numbers."""

    run: Callable[..., Tensor]
    """What it takes -> all h, (B, T, D) or turned."""

    takes: Callable[[Tensor, Tensor], tuple[Tensor, ...]]
    """a, b (B, T, D) -> what it takes; one function for all who take the same, which then share it."""

    gradients: Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]] = lambda a, found: found
    """a and the gradients of what it takes -> those of a and b (B, T, D)."""

    turned: bool = False
    """Whether it returns (B, D, T)."""


@dataclass(frozen=True)
class LongFigures:
    """Seconds of one forward and backward pass by contender, and why others are missing."""

    size: Size
    dtype: str
    seconds: dict[str, float]
    missing: dict[str, str]

    def ratio(self, who: str, to: str) -> float | None:
        """The time of one ÷ the time of another."""
        return self.seconds[who] / self.seconds[to] if {who, to} <= self.seconds.keys() else None

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        times = {name: 1000 * value for name, value in self.seconds.items()}
        return {"size": list(self.size), "dtype": self.dtype, "ms": times, "missing": self.missing}


def as_they_are(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a, b


def side_by_side(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (torch.cat((a, b), dim=-1),)


def time_last(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a.mT.contiguous(), b.mT.contiguous()


def logarithms(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return b, a.log()


def weft_scan(backend: Backend) -> Callable[[Size, torch.device], Scan]:
    def build(size: Size, device: torch.device) -> Scan:
        rnn = RNN(GivenRecurrence, 2 * size.hidden, size.hidden, backend=backend)
        return Scan(
            run=lambda x: rnn(x)[0],
            takes=side_by_side,
            gradients=lambda a, found: found[0].chunk(2, dim=-1),
        )

    return build


def torch_scan(size: Size, device: torch.device) -> Scan:
    """torch.associative_scan, on a GPU compiled, as it is meant to be used."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return left[0] * right[0], right[0] * left[1] + right[1]

    def scan(a: Tensor, b: Tensor) -> Tensor:
        mode = "pointwise" if device.type == "cuda" else "generic"
        return associative_scan(combine, (a, b), dim=1, combine_mode=mode)[1]

    return Scan(run=torch.compile(scan) if device.type == "cuda" else scan, takes=as_they_are)


def accelerated_scan(module: str, *, longest: int | None) -> Callable[[Size, torch.device], Scan]:
    """One of the scans of accelerated-scan, which all take (B, D, T).

    That of warps takes a power of two of steps, from 32 to `longest`, and is compiled by nvcc on import.
    """

    def build(size: Size, device: torch.device) -> Scan:
        if longest and (size.time & (size.time - 1) or not 32 <= size.time <= longest):
            raise Unavailable(f"it takes a power of two of steps, from 32 to {longest}")
        found = _installed(module, "accelerated-scan", device)
        return Scan(
            run=found.scan,
            takes=time_last,
            gradients=lambda a, found: (found[0].mT, found[1].mT),
            turned=True,
        )

    return build


def flash_linear_attention(name: str) -> Callable[[Size, torch.device], Scan]:
    """A kernel of HGRN, which takes the inputs and the logarithms of the slopes."""

    def build(size: Size, device: torch.device) -> Scan:
        kernel = getattr(_installed("fla.ops.hgrn", "flash-linear-attention", device), name)
        return Scan(
            run=lambda x, log_slope: kernel(x, log_slope)[0],
            takes=logarithms,
            gradients=lambda a, found: (found[1] / a, found[0]),
        )

    return build


def _installed(module: str, package: str, device: torch.device) -> Any:
    if device.type != "cuda":
        raise Unavailable("it needs a GPU with CUDA")
    try:
        with _stdout_to_stderr():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] == error.name.split(".")[0]:
            raise Unavailable(f"it is not installed (pip install {package})") from None
        raise Unavailable(f"it cannot be imported: {error}") from None


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keep the words of a compiler, which run below Python, out of the table."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


CONTENDERS: Final[dict[str, Callable[[Size, torch.device], Scan]]] = {
    "weft": weft_scan("auto"),
    "weft loop": weft_scan("loop"),
    "weft scan": weft_scan("scan"),
    "torch scan": torch_scan,
    "accelerated-scan warp": accelerated_scan("accelerated_scan.warp", longest=65_536),
    "accelerated-scan triton": accelerated_scan("accelerated_scan.scalar", longest=None),
    "fla hgrn chunk": flash_linear_attention("chunk_hgrn"),
    "fla hgrn recurrent": flash_linear_attention("fused_recurrent_hgrn"),
}


def measure_long(
    size: Size, dtype: str, device: torch.device, *, repeats: int, contenders: Sequence[str] = tuple(CONTENDERS)
) -> LongFigures:
    """Time in turn those contenders that run here and compute the recurrence."""
    torch.manual_seed(0)
    a = torch.rand(size, device=device).to(DTYPES[dtype]).clamp(0.01, 0.99)
    b, weight = (torch.randn(size, device=device, dtype=DTYPES[dtype]) for _ in range(2))
    expected = recurrence(a, b, weight)
    given = cache(lambda takes: tuple(x.detach().requires_grad_() for x in takes(a, b)))
    weights = cache(lambda turned: weight.mT.contiguous() if turned else weight)
    running, missing = dict[str, Contender](), dict[str, str]()
    for name in contenders:
        try:
            scan = CONTENDERS[name](size, device)
            run = _pass(scan, given(scan.takes), weights(scan.turned))
            _check(scan, a, run(), expected, TOLERANCE[dtype])
            seconds = time_in_turn({name: Contender(run)}, rounds=1, device=device)[name]
            running[name] = Contender(run, every=SLOW_EVERY_ROUNDS if seconds > SLOW_SECONDS else 1)
        except Exception as error:  # whatever other software raises, the rest of the table stands
            missing[name] = _reason(error)
    del expected
    running["limit"] = Contender(_copies(a))
    return LongFigures(size, dtype, time_in_turn(running, rounds=repeats, device=device), missing)


def recurrence(a: Tensor, b: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a, b, the gradient of h (B, T, D) -> h and the gradients of a and b, in float32, step by step."""
    a, h, gradient = a.float(), *(torch.empty_like(x, dtype=torch.float32).copy_(x) for x in (b, weight))
    for step in range(1, a.size(1)):
        h[:, step].addcmul_(a[:, step], h[:, step - 1])
        back = a.size(1) - step
        gradient[:, back - 1].addcmul_(a[:, back], gradient[:, back])
    of_a = torch.zeros_like(h)
    torch.mul(gradient[:, 1:], h[:, :-1], out=of_a[:, 1:])
    return h, of_a, gradient


def _check(
    scan: Scan,
    a: Tensor,
    found: tuple[Tensor, tuple[Tensor, ...]],
    expected: tuple[Tensor, Tensor, Tensor],
    tolerance: float,
) -> None:
    """Raise Unavailable unless h and both gradients are those of the recurrence."""
    h, gradients = found
    ours = h.detach().mT if scan.turned else h.detach(), *scan.gradients(a, gradients)
    for what, mine, true in zip(("h", "the gradient of a", "the gradient of b"), ours, expected, strict=True):
        distance = float(torch.dist(mine.float(), true) / true.norm())
        if not distance <= tolerance:
            raise Unavailable(f"{what} is not that of the recurrence: it is {100 * distance:.2g}% off")


def _reason(error: Exception) -> str:
    """The first line of what went wrong, with the kind of an error that says nothing by itself."""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    return line if isinstance(error, Unavailable | WeftError) else f"{type(error).__name__}: {line}".rstrip(": ")


def _pass(scan: Scan, given: tuple[Tensor, ...], weight: Tensor) -> Callable[[], tuple[Tensor, tuple[Tensor, ...]]]:
    """A forward and backward pass -> all h, and the gradients of what the scan takes."""

    def run() -> tuple[Tensor, tuple[Tensor, ...]]:
        h = scan.run(*given)
        return h, torch.autograd.grad(h, given, weight)

    return run


def _copies(a: Tensor) -> Callable[[], None]:
    """Copies that read and write as many numbers as a pass must."""
    target = torch.empty_like(a)

    def run() -> None:
        for _ in range(FLOAT_PASSES // 2):
            target.copy_(a)

    return run


def long_cases(sizes: Sequence[str], dtypes: Sequence[str], device: str) -> list[tuple[Size, str, torch.device]]:
    """Every size with every type; by default sizes that suit the device."""
    place = choose_place(device)
    chosen = [Size.parse(text) for text in sizes] or LONG_SIZES[place.type]
    return [(size, dtype, place) for size in chosen for dtype in dtype_names(dtypes, place)]


LONG_MEANING: Final = (
    "limit: copies of as many numbers as a pass must read and write; ratio: the time before it ÷ weft's"
)


def tabulate_long(rows: Sequence[LongFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines: milliseconds of each contender that ran at some size, weft's beside the limit."""
    names = [name for name in CONTENDERS if name != "weft" and any(name in row.seconds for row in rows)]
    headings = ["B,T,D", "dtype", "weft ms", "limit ms", "weft / limit"]
    headings += [heading for name in names for heading in (f"{name} ms", "ratio")]
    lines = []
    for row in rows:
        line = [str(row.size), row.dtype, _milliseconds(row, "weft"), _milliseconds(row, "limit")]
        line.append(_ratio(row, "weft", "limit"))
        for name in names:
            line += [_milliseconds(row, name), _ratio(row, name, "weft")]
        lines.append(line)
    return headings, lines


def _milliseconds(row: LongFigures, who: str) -> str:
    return f"{1000 * row.seconds[who]:.3g}" if who in row.seconds else NOTHING


def _ratio(row: LongFigures, who: str, to: str) -> str:
    ratio = row.ratio(who, to)
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def long_remarks(rows: Sequence[LongFigures]) -> list[str]:
    """Return what the columns mean, why a contender is missing and at which sizes, each reason once."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, why in row.missing.items():
            found.setdefault(f"without {name}: {why}", []).append(f"{row.size} {row.dtype}")
    reasons = [text if len(at) == len(rows) else f"{text} (at {'; '.join(at)})" for text, at in found.items()]
    return [LONG_MEANING, *reasons]
