"""Measures servers under load, one after the other, each in a process of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.bench.serve.load import Load, run_load
from weft.bench.serve.process import ServerProcess
from weft.catalog import TASKS
from weft.data import BadLines
from weft.errors import ConfigError, WeftError, did_you_mean
from weft.run.stored import load_config

CONTENDERS: Final = ("weft", "weft-one", "huggingface", "ctranslate2")
"""weft; weft with batches of one; the same weights behind FastAPI in other software."""

MEANING: Final = (
    "weft-one: weft with batches of one; ratio: weft's rate ÷ that of another; MB: the server's memory; growth: of the "
    "last third of the time beside the third before it"
)

WARM_UP_CLIENTS, MAX_INPUTS = 4, 2000


@dataclass(frozen=True)
class ServeCase:
    """Settings of a measurement."""

    run: Path
    contenders: tuple[str, ...]
    inputs: tuple[str, ...]
    clients: int = 64
    seconds: float = 60.0
    threads: int = 2
    deadline: float = 30.0
    leaving: int = 0

    def describe(self) -> str:
        leaving = f", {self.leaving} more that leave in the middle of a stream" if self.leaving else ""
        return f"{self.clients} clients{leaving}, {self.seconds:g} s, {self.threads} threads, one input in a request"


@dataclass(frozen=True)
class ServeFigures:
    """The figures of one contender."""

    who: str
    load: Load

    def tree(self) -> dict[str, Any]:
        load = self.load
        return {
            "who": self.who,
            "requests": len(load.latencies),
            "rate": load.rate,
            "p50": load.latency(0.5),
            "p99": load.latency(0.99),
            "errors": len(load.errors),
            "first_errors": load.errors[:5],
            "megabytes": load.memory[-1][1] / 1e6 if load.memory else None,
            "memory_growth": load.growth(),
        }


def plan_serve(run: Path, *, contenders: Sequence[str], file: Path | None, **settings: Any) -> ServeCase:
    """Check what is asked for; the inputs are the lines of a file, or those of the run's own validation data."""
    for name in contenders:
        if name not in CONTENDERS:
            cure = did_you_mean(name, CONTENDERS)
            raise ConfigError(f'"{name}" is no contender', where="--contender", cure=cure)
    return ServeCase(run, tuple(contenders), tuple(read_inputs(run, file)), **settings)


def read_inputs(run: Path, file: Path | None) -> list[str]:
    """Return texts to send."""
    if file is not None:
        found = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        config = load_config(run)
        source: Any = getattr(config.data, "valid", None) or getattr(config.data, "train", None)
        try:
            records = TASKS[config.task].read(source, config.data, BadLines(skip=True))
            found = [
                record.sides[0] if record.sides else record.key
                for record, _ in zip(records, range(MAX_INPUTS), strict=False)
            ]
        except (WeftError, OSError, TypeError, AttributeError):
            found = []
    if not found:
        cure = "give a file with a text on each line: --inputs FILE"
        raise ConfigError("has no data here to take inputs from", where=str(run), cure=cure)
    return found[:MAX_INPUTS]


def measure_serve(
    case: ServeCase, *, progress: Callable[[str], None] = lambda _: None
) -> tuple[list[ServeFigures], list[str]]:
    """Measure each contender -> figures, and a line for each that cannot take part."""
    rows, remarks = [], []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-")))
        for name in case.contenders:
            progress(f"{name}: start")
            try:
                words = _words(name, case, folder)
            except WeftError as error:
                remarks.append(f"without {name}: {error}")
                continue
            with ServerProcess(words, threads=case.threads) as server:
                progress(f"{name}: {case.seconds:g} s")
                rows.append(ServeFigures(name, asyncio.run(_load(server, case))))
    return rows, remarks


async def _load(server: ServerProcess, case: ServeCase) -> Load:
    bodies = [{"inputs": [text]} for text in case.inputs]
    await run_load(server.url, bodies, clients=WARM_UP_CLIENTS, seconds=min(2.0, case.seconds))
    options: dict[str, Any] = {"clients": case.clients, "seconds": case.seconds, "leaving": case.leaving}
    return await run_load(server.url, bodies, memory=server.memory, **options)


def _words(name: str, case: ServeCase, folder: Path) -> list[str]:
    """The words after `python -m` that start a contender."""
    if name.startswith("weft"):
        one = ["--batch-tokens", "1"] if name == "weft-one" else []
        limits = ["--threads", str(case.threads), "--deadline", str(case.deadline)]
        return ["weft", "serve", str(case.run), "--port", "0", *limits, *one]
    from weft.export import export_run

    out = folder / name
    export_run(case.run, to=name, out=out)
    return ["weft.bench.serve.rival", name, str(out), str(case.threads)]


def tabulate_serve(rows: Sequence[ServeFigures]) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows of a table."""
    headings = ["contender", "requests/s", "ratio", "p50 ms", "p99 ms", "errors", "MB", "growth"]
    first = rows[0].load.rate if rows else 0.0
    lines = []
    for row in rows:
        load = row.load
        ratio = "-" if row is rows[0] or not load.rate else f"{first / load.rate:.2f}×"
        memory = f"{load.memory[-1][1] / 1e6:.0f}" if load.memory else "-"
        times = [f"{1000 * load.latency(share):.0f}" for share in (0.5, 0.99)]
        lines.append(
            [row.who, f"{load.rate:.1f}", ratio, *times, str(len(load.errors)), memory, f"{100 * load.growth():+.1f}%"]
        )
    return headings, lines
