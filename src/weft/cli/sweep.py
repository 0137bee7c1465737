"""weft sweep CONFIG|TASK [DATA…] key=LOW..HIGH key=a,b,c [key=value…]"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import SkipBadLines
from weft.errors import RunError, shorten

if TYPE_CHECKING:
    from weft.sweep import Outcome, Trial

SHOWN_TRIALS = 10
"""Trials in the table, the best ones."""


def sweep(
    what: Annotated[str, typer.Argument(help="A config file, or a task followed by files.", metavar="CONFIG|TASK")],
    words: Annotated[
        list[str],
        typer.Argument(
            help="Settings to vary: train.rate=1e-4..1e-2 is a range, model.cell=gru,lstm a choice. Also files and "
            "settings as for weft train.",
            metavar="key=LOW..HIGH|key=a,b,c",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the sweep; the runs are in its trials/.")],
    trials: Annotated[int, typer.Option("--trials", "-n", help="Runs in all.", min=1)] = 20,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the sweep in the folder.")] = False,
    skip_bad_lines: SkipBadLines = False,
    imports: Imports = None,
) -> None:
    """Search for the settings that score best on validation data; test data is never used.

    Runs that fall behind are ended early; runs that fail are noted and skipped.

    Examples:
    weft sweep my.toml train.rate=1e-4..1e-2 model.cell=gru,lstm --out sweeps/cells
    weft sweep classify train.tsv valid.tsv model.hidden=32..512 train.epochs=5 --out sweeps/width
    """
    from weft.cli.output import note
    from weft.cli.train import read
    from weft.sweep import read_space
    from weft.sweep import sweep as run_sweep

    cells = read_imports(imports)
    space, rest = read_space(words)
    tree = read(what, rest, cells)
    found = run_sweep(
        tree,
        space,
        trials=trials,
        out=out,
        resume=resume,
        say=lambda trial: note("{}", describe(trial)),
        note=lambda text: note("{}", text),
        skip_bad_lines=skip_bad_lines,
        cells=cells,
    )
    if found.trials:
        show(found, [dimension.path for dimension in space])
    if found.signal:
        note("stopped; resume the sweep in {} with the same command and [bold]--resume[/]", out)
        raise typer.Exit(128 + found.signal)
    if found.trials and all(trial.ended == "failed" for trial in found.trials):
        why = shorten(found.trials[0].error or "")
        raise RunError(f"every trial failed, the first with: {why}", where=str(out), cure="fix that first")
    if found.best is not None:
        best = [f"{path}={to_word(value)}" for path, value in found.best.settings.items()]
        imported = [word for name in imports or [] for word in ("--import", name)]
        command = shlex.join(["weft", "train", what, *rest, *best, *imported, "--out", str(out / "best")])
        note("\nNext: [bold]{}[/]", command)
        note("      the run of this trial is in {}", out / "trials" / str(found.best.number))


def describe(trial: Trial) -> str:
    """One line for a trial that has ended."""
    settings = "  ".join(f"{path}={show_value(value)}" for path, value in trial.settings.items())
    why = f"  {shorten(trial.error)}" if trial.error else ""
    return f"trial {trial.number}  {show_score(trial)}  {settings}{why}"


def show_score(trial: Trial) -> str:
    from weft.metric_text import show_metric

    return trial.ended if trial.score is None else show_metric(trial.metric, trial.score)


def show(found: Outcome, paths: list[str]) -> None:
    from weft.cli.output import note, print_table
    from weft.metric_text import metric_name

    rows = [
        [
            str(trial.number),
            show_score(trial),
            *(show_value(trial.settings[path]) if path in trial.settings else "—" for path in paths),
            f"{trial.seconds:,.1f}",
        ]
        for trial in found.trials[:SHOWN_TRIALS]
    ]
    print_table(["trial", metric_name((found.best or found.trials[0]).metric), *paths, "seconds"], rows)
    counts = {ended: sum(trial.ended == ended for trial in found.trials) for ended in ("complete", "pruned", "failed")}
    note("{}", ", ".join(f"{count} {ended}" for ended, count in counts.items() if count))


def show_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else to_word(value)


def to_word(value: object) -> str:
    """A value as it is written on a command line, with all its digits."""
    return str(value).lower() if isinstance(value, bool) else str(value)
