"""weft predict RUN FILES… --out FILE: the options of batches, and what is printed of one."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from weft.batch import Answered, Progressed

Out = Annotated[
    Path | None,
    typer.Option(
        help="Answer JSON lines or Parquet in parts, and write rows with answers here; a second time it goes on.",
        metavar="FILE.jsonl|parquet",
    ),
]
Engine = Annotated[
    str | None, typer.Option(help="With --out: local, or ray for actors on several cores, GPUs and machines.")
]
Actors = Annotated[
    int | None, typer.Option(help="With --engine ray: models at a time; by default one per GPU, or core.")
]
Threads = Annotated[int | None, typer.Option(help="With --out: processor threads of a model; 1 with --engine ray.")]
Address = Annotated[
    str | None, typer.Option(help="With --engine ray: a running cluster, such as auto; else RAY_ADDRESS, or none.")
]
PartRows = Annotated[int | None, typer.Option(help="With --out: rows of a part, which is what a kill can lose.")]

PROGRESS_SECONDS: Final = 10.0
"""Seconds between two lines on how far a batch is."""


def refuse_options(given: dict[str, Any], *, out: Path | None) -> None:
    """Raise for options that mean nothing with --out, or nothing without it."""
    from weft.errors import ConfigError

    for name, value in given.items():
        if value not in (None, False, ()):
            cure = "leave it out" if out is not None else "add --out FILE.jsonl, or leave it out"
            what = "is not for --out, which writes all of it" if out is not None else "needs --out"
            raise ConfigError(what, where=name, cure=cure)


def answer_batch(run: str, files: Sequence[str], out: Path, **options: Any) -> None:
    """Answer files in parts and say what was done."""
    from weft.batch import predict_files
    from weft.cli.answering import note_shortcomings
    from weft.cli.output import note, print_error
    from weft.errors import ConfigError, counted

    if not files or "-" in files:
        cure = "name .jsonl or .parquet files; standard input has no parts"
        raise ConfigError("needs files", where="--out", cure=cure)
    try:
        found: Answered = predict_files(run, files, out, progress=_printer(), **options)
    except KeyboardInterrupt:
        note("what is finished is kept in {}; the same command goes on", f"{out}.job")
        raise
    if not found.parts and not found.computed:
        note("{}: is complete, with {}", out, counted(found.rows, "row"))
        return
    for error in found.named:
        print_error(error)
    note_shortcomings(found.notes or Counter())
    kept = found.parts - found.computed
    left = f", {counted(found.bad, 'bad row')} left out" * (found.bad > 0)
    before = f"; {kept:,} of {counted(found.parts, 'part')} had been computed before" * (kept > 0)
    note("{}: {}{}", out, counted(found.rows, "row"), left + before)


def _printer() -> Callable[[Progressed], None]:
    """A function that prints on standard error how far a batch is, now and then."""
    from weft.cli.output import note

    began = last = time.monotonic()

    def show(progress: Progressed) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_SECONDS or (sys.stderr.isatty() and now - last >= 1):
            last = now
            rate = progress.rows / max(now - began, 1e-9)
            note("{} of {} parts, {} rows per second", f"{progress.parts:,}", f"{progress.of:,}", f"{rate:,.0f}")

    return show
