"""weft train CONFIG|TASK [DATA…] [key=value…]"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import SkipBadLines

if TYPE_CHECKING:
    from weft.nn import CellClass
    from weft.run import Run
    from weft.training import Ended
    from weft.training.progress import Watch

OVERRIDE = re.compile(r"[a-z_]+(\.\w+)*=")


def train(
    what: Annotated[
        str,
        typer.Argument(
            help="A config file, or lm, mask, classify, regress, tag, translate, caption, forecast, embed.",
            metavar="CONFIG|TASK",
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="With a task: files for training, validation and test. Always: settings such as train.epochs=3.",
            metavar="DATA key=value",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run; by default runs/TASK-N.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out from its last checkpoint, or start it.")
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="A run, or hf://OWNER/NAME, whose weights and tokenizer the model starts from (train.start)."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the memory and time that training would take; train nothing.")
    ] = False,
    skip_bad_lines: SkipBadLines = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Tokenise large files again instead of using cached tokens.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    imports: Imports = None,
) -> None:
    """Train a model, measure it, and write it to a run folder.

    Examples:
    weft train translate pairs.tsv
    weft train classify train.tsv valid.tsv test.tsv train.epochs=3
    weft train my.toml model.encoder.hidden=512 --out runs/wide
    weft train lm text.txt model.cell=Mine --import mine.py:Mine
    weft train count numbers.tsv --import count.py:Count
    weft train classify labelled.tsv --from runs/masked
    weft train my.toml --out runs/wide --resume
    weft train my.toml --dry-run
    """
    from weft.errors import ConfigError
    from weft.run import train_run
    from weft.training.progress import Watch
    from weft.training.ranks import is_first

    cells = read_imports(imports)
    more = [] if start is None else [f"train.start={start}"]
    for word in words or []:
        if more and word.startswith(("train.start=", "train.start.")):
            raise ConfigError(f"--from {start} is the same setting", where=word, cure="leave out one of the two")
    tree, watch = read(what, [*(words or []), *more], cells), Watch(quiet=quiet)
    if dry_run:
        print_dry_run(tree, watch, skip_bad_lines=skip_bad_lines, cells=cells)
        return
    run, ended = train_run(
        tree, out=out, watch=watch, skip_bad_lines=skip_bad_lines, cells=cells, resume=resume, fresh=fresh
    )
    if is_first() and not run.report:
        again = [what, *(words or []), *more, *(f"--import={word}" for word in imports or [])]
        again += ["--skip-bad-lines"] if skip_bad_lines else []
        with suppress(OSError):  # training may have stopped because its terminal was closed
            print_stopped(run, ended, again)
    elif is_first() and not quiet:
        summarise(run, ended.reason, imports or [])
    if ended.interrupted:
        raise typer.Exit(128 + ended.signal)


def print_dry_run(
    tree: dict[str, Any], watch: Watch, *, skip_bad_lines: bool, cells: Mapping[str, CellClass] | None
) -> None:
    """Print the memory and time that a training would take, measured on its largest batch and some others."""
    from weft.cli.output import write
    from weft.run.dry_run import dry_run
    from weft.run.prepare import prepare

    with watch.waiting("reading the data and trying some batches"):
        found = dry_run(prepare(tree, skip_bad_lines=skip_bad_lines, cells=cells))
    for line in found.lines():
        write(f"{line}\n")


def read(what: str, words: list[str], cells: Mapping[str, CellClass] | None = None) -> dict[str, Any]:
    """The settings of a command: those of a config file, or of a task with its files, changed by the overrides."""
    from weft.catalog import TASKS
    from weft.config import merge, parse_overrides, read_config, read_tree, unknown_task
    from weft.errors import ConfigError

    settings = [word for word in words if OVERRIDE.match(word)]
    files = [word for word in words if not OVERRIDE.match(word)]
    overrides = parse_overrides(settings)
    if what not in TASKS:
        if not Path(what).exists() and "." not in what and "/" not in what:
            raise unknown_task(what, where=f'"{what}"', what="is neither a config file nor a task")
        if files:
            cure = "write data.train=FILE to change a setting"
            raise ConfigError("files go with a task, not with a config file", where=files[0], cure=cure)
        return read_config(merge(read_tree(what), overrides), cells=cells)
    if len(files) > 3:
        raise ConfigError("give at most three files: train, valid, test", where=files[3])
    data = dict(zip(("train", "valid", "test"), files, strict=False))
    return read_config(merge({"task": what, "data": data}, overrides), cells=cells)


def print_stopped(run: Run, ended: Ended, words: list[str]) -> None:
    """Print the command that resumes a run after a signal, even with --quiet."""
    from weft.cli.output import note
    from weft.errors import counted

    command = shlex.join(["weft", "train", *words, "--out", str(run.folder), "--resume"])
    updates = counted(ended.step, "update")
    note("{} after {}, all is saved; resume with: [bold]{}[/]", ended.reason, updates, command)


def summarise(run: Run, reason: str, imports: list[str]) -> None:
    """Print the scores of a run and the next commands, with the --import options that these need."""
    from weft.cli.output import explain, note
    from weft.errors import counted
    from weft.metric_text import metric_name, show_score
    from weft.metrics import describe_vocabulary, shown
    from weft.run.conclusions import conclusions

    report = run.report
    took = f"{counted(report['steps'], 'update')}, {report['seconds']:.0f} s"
    note("\n[bold]{}[/]  {} after {}", run.folder, reason, took)
    for part in ("valid", "test"):
        if part in report:
            about = report["details"][part]
            scores = shown(report[part], about, run.config.train.metric)
            values = [word for name in scores for word in (metric_name(name), show_score(name, scores[name], about))]
            note("  {}  " + "   ".join(["{} [bold]{}[/]"] * len(scores)), f"{part:5}", *values)
            if vocabulary := describe_vocabulary(about):
                note("         {}", vocabulary)
    details = report["details"].get("test") or report["details"]["valid"]
    details = {name: value for name, value in details.items() if name != "vocabulary"}
    for line in (*explain(details, report="baselines" in report), *conclusions(report)):
        note("         {}", line)
    source = run.config.data.files("test") or run.config.data.files("valid")
    again = "".join(f" --import {word}" for word in imports)
    note("\nNext: [bold]weft predict {}{}[/]    {}", run.folder, again, run.task.prediction_hint)
    if isinstance(source, str):
        note("      [bold]weft evaluate {} {}{}[/]", run.folder, source, again)
