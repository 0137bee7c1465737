"""Measures one recurrent layer, forward and backward: weft, torch.nn, the plain loop and the limit, in one process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import torch

from weft.bench.recurrence.case import DTYPES, Case
from weft.bench.recurrence.contenders import Workload
from weft.bench.recurrence.limit import MatrixProducts, products_of
from weft.bench.recurrence.memory import first_call, peak_in_process
from weft.bench.recurrence.process import ask
from weft.bench.timing import Contender, time_in_turn
from weft.errors import ConfigError, did_you_mean
from weft.nn import CELLS, CellClass
from weft.nn.recurrent.engine.trace import Untraceable
from weft.training.device import synchronize

OTHERS: Final = ("graph", "graphed", "torch", "torch_fp16", "eager", "limit")
"""The contenders beside weft; `graph`, `graphed` and `torch_fp16` run on a GPU only."""

EAGER_EVERY_ROUNDS: Final = 5
"""The plain loop is slow and its time varies little: it takes part in every fifth round."""


@dataclass(frozen=True)
class Figures:
    """Seconds of one forward and backward pass by contender: weft and some of OTHERS.

    first is the time of weft's first call: trace, compile, run. memory is bytes by contender. missing is the reason for
    each contender that did not run, reason why weft's backend is not a faster one.
    """

    case: Case
    backend: str
    reason: str
    first: float
    seconds: dict[str, float]
    memory: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def ratio(self, who: str) -> float | None:
        """The time of a contender divided by weft's; for the limit this is the share of it that weft reaches."""
        return self.seconds[who] / self.seconds["weft"] if who in self.seconds else None

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        case, row = self.case, dict[str, Any]()
        row |= {"cell": case.cell, "size": list(case.size), "backend": self.backend, "reason": self.reason}
        row["dtype"] = case.dtype
        for who in ("weft", *OTHERS):
            row[f"{who}_ms"] = 1000 * self.seconds[who] if who in self.seconds else None
            if who != "weft":
                row["limit_share" if who == "limit" else f"{who}_ratio"] = self.ratio(who)
        row |= {f"{who}_bytes": self.memory.get(who) for who in ("weft", "torch")}
        return row | {"first_seconds": self.first, "missing": self.missing}


def measure(
    case: Case,
    *,
    repeats: int = 15,
    others: Sequence[str] = OTHERS,
    memory: bool = False,
    cells: Mapping[str, CellClass] = CELLS,
    imports: Sequence[str] = (),
) -> Figures:
    """Measure weft and `others` in one case. On a CPU they share a fresh process, because earlier allocations change
    timings.

    `memory` measures peak memory on a CPU too, each contender in a process of its own. `cells` are all that a case may
    name; `imports` are the [NAME=]FILE.py:CLASS from which the fresh process imports cells that are not weft's.
    """
    if case.device.type != "cpu":
        return measure_here(case, cells, repeats, others)
    found = ask(measured, case, imports=imports, repeats=repeats, others=list(others))
    if memory:
        there = [who for who in ("weft", "torch") if who in found["seconds"]]
        found["memory"] = {who: peak_in_process(case, who, imports=imports) for who in there}
    return Figures(case, **found)


def check_contenders(given: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the contenders that were given, by default all; raise on an unknown one."""
    for name in given:
        if name not in known:
            raise ConfigError(f'"{name}" is no contender', where="--contender", cure=did_you_mean(name, known))
    return tuple(given or known)


def measured(case: Case, cells: Mapping[str, CellClass], repeats: int, others: Sequence[str]) -> dict[str, Any]:
    """The figures as a dict without their case, for another process."""
    tree = asdict(measure_here(case, cells, repeats, others))
    return {name: value for name, value in tree.items() if name != "case"}


def measure_here(case: Case, cells: Mapping[str, CellClass], repeats: int, others: Sequence[str]) -> Figures:
    """Measure one case in this process; memory on a GPU only."""
    work = Workload(case, cells)
    _wake(work.device)
    weft = work.weft()
    try:
        first = first_call(weft, work.device)
    except torch.OutOfMemoryError:
        raise ConfigError(
            "does not fit on the device", where=f"--size {case.size}", cure="take a smaller one"
        ) from None
    contenders, peaks, missing = {"weft": Contender(weft)}, {"weft": first.peak}, dict[str, str]()
    known: dict[str, Callable[[], Callable[[], object]]]
    known = {"torch": work.torch, "eager": work.eager, "limit": lambda: _limit(work)}
    if work.device.type == "cuda":
        known["graph"], known["graphed"] = work.graph, work.graphed
        if case.dtype != "fp16":
            known["torch_fp16"] = work.torch_half
    for who, build in ((who, known[who]) for who in OTHERS if who in others and who in known):
        try:
            run = build()
            peaks[who] = first_call(run, work.device).peak
            contenders[who] = Contender(run, every=EAGER_EVERY_ROUNDS if who == "eager" else 1)
        except (ConfigError, RuntimeError, Untraceable) as error:  # torch lacks the cell, or cannot run it here
            missing[who] = error.what if isinstance(error, ConfigError) else str(error).partition("\n")[0]
    seconds = time_in_turn(contenders, rounds=repeats, device=work.device)
    backend, reason = work.backend()
    memory = {who: peak for who, peak in peaks.items() if peak is not None}
    return Figures(case, backend, reason, first.seconds, seconds, memory, missing)


def _limit(work: Workload) -> MatrixProducts:
    case, dtype = work.case, DTYPES[work.case.dtype]
    directions = 2 if case.bidirectional else 1
    products = products_of(work.cell(), case.weight_dtype)
    return MatrixProducts(products, case.row_lengths(), directions=directions, dtype=dtype, device=work.device)


def _wake(device: torch.device) -> None:
    """Load torch's libraries now, so that no contender's first call and memory include them."""
    weight = torch.randn(64, 64, device=device, requires_grad=True)
    torch.autograd.grad((weight @ weight).sum(), weight)
    synchronize(device)
