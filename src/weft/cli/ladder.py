"""weft ladder TASK DATA… [key=value…]"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import SkipBadLines

if TYPE_CHECKING:
    from weft.ladder import Summary

BASE_SECTIONS = ("data", "seed")
"""Settings that belong to the data of the ladder; others are those of its rungs."""


def ladder(
    task: Annotated[str, typer.Argument(help="lm, classify, regress, tag, translate or forecast.", metavar="TASK")],
    words: Annotated[
        list[str],
        typer.Argument(
            help="Files for training, validation and test, and settings for all rungs such as train.rate=1e-3.",
            metavar="DATA key=value",
        ),
    ],
    seconds: Annotated[
        float | None, typer.Option(help="Seconds of training of each rung; models of counts have no limit.", min=0.001)
    ] = None,
    updates: Annotated[
        int | None, typer.Option(help="Updates of each rung; models of counts have no limit.", min=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the ladder; by default runs/ladder-TASK-N.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Default rungs to train, as in bag,rnn; none trains those of --rung alone.")
    ] = None,
    rung: Annotated[
        list[str] | None, typer.Option(help="A config file whose settings are a further rung. Repeatable.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The score of the table.", show_default="the task's own")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the ladder in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print ladder.json instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing while rungs are trained.")] = False,
    skip_bad_lines: SkipBadLines = False,
    imports: Imports = None,
) -> None:
    """Train models of rising strength on the same data and put them into one table.

    The rungs of lm are ngram-2, ngram-3, ngram-5, conv, elman, lstm and transformer; of classify majority, bag, rnn
    and transformer; of regress bag, rnn and transformer; of tag per-word, hmm, rnn, rnn-crf and transformer; of
    translate rnn-first, rnn-after and transformer; of forecast naive, seasonal_naive, drift, linear, rnn, conv and
    transformer.

    Examples:
    weft ladder classify train.tsv valid.tsv test.tsv --seconds 60
    weft ladder lm text.txt --updates 500 --only ngram-3,lstm --rung wide.toml --out ladders/text
    weft ladder tag train.conllu --resume --out ladders/tags
    """
    from weft.cli.output import note, print_json
    from weft.errors import ConfigError
    from weft.ladder import build_rungs, climb, summarise
    from weft.ladder.page import draw_page
    from weft.run.folder.lock import next_free
    from weft.training.progress import Watch

    if seconds is not None and updates is not None:
        raise ConfigError("is one budget, --updates another", where="--seconds", cure="keep one of the two")
    if resume and out is None:
        raise ConfigError("needs the folder of the ladder", where="--resume", cure="add --out DIR")
    cells = read_imports(imports)
    base, overrides = read_words(task, words, updates=updates)
    chosen = None if only is None else [name for name in only.split(",") if name not in ("", "none")]
    rungs = build_rungs(base, only=chosen, files=rung or [], overrides=overrides, cells=cells)
    folder = out or next_free(Path("runs"), f"ladder-{task}")
    found = climb(
        rungs,
        out=folder,
        seconds=seconds,
        resume=resume,
        watch=lambda: Watch(quiet=quiet),
        say=lambda text: None if quiet else note("[bold]{}[/]", text),
        skip_bad_lines=skip_bad_lines,
        cells=cells,
    )
    if found.signal:
        again = command(task, words, seconds, updates, only, rung, metric, folder, skip_bad_lines, imports)
        note("stopped; resume with: [bold]{}[/]", again)
        raise typer.Exit(128 + found.signal)
    if not quiet:
        note("[bold]{}[/]", "measuring all rungs")
    summary = summarise(
        rungs,
        found.folders,
        base,
        metric=metric,
        failed=found.failed,
        skip_bad_lines=skip_bad_lines,
        cells=cells,
    )
    written = draw_page(summary, folder)
    if json:
        print_json(summary.tree())
    else:
        show(summary)
    note("written: {}", ", ".join(map(str, written)))


def read_words(task: str, words: list[str], *, updates: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The task and data of a command as settings, and the settings for all rungs."""
    from weft.catalog import TASKS
    from weft.cli.train import OVERRIDE
    from weft.config import merge, parse_overrides, unknown_task
    from weft.errors import ConfigError

    if task not in TASKS:
        raise unknown_task(task, where=f'"{task}"')
    settings = parse_overrides(word for word in words if OVERRIDE.match(word))
    files = [word for word in words if not OVERRIDE.match(word)]
    if len(files) > 3:
        raise ConfigError("give at most three files: train, valid, test", where=files[3])
    data = dict(zip(("train", "valid", "test"), files, strict=False))
    base = merge({"task": task, "data": data}, {name: settings.pop(name) for name in BASE_SECTIONS if name in settings})
    if "train" not in base["data"]:
        raise ConfigError("no training data", where="weft ladder", cure=f"name a file: weft ladder {task} FILE")
    return base, merge(settings, {"train": {"steps": updates}} if updates is not None else {})


def show(summary: Summary) -> None:
    """Print the table, the plot and the conclusion."""
    from weft.cli.output import note, print_table, say, write
    from weft.ladder.page import conclusion, headings, plot_text, rows

    body = [[cells[1], *cells[2:], cells[0]] for cells in rows(summary)]
    names = headings(summary)
    title = f"{summary.task}: scores on the {summary.measured_on} data ({summary.examples:,} examples)"
    print_table([*names[1:], "plot"], body, title=title)
    write(f"{plot_text(summary)}\n\n")
    say("{}", conclusion(summary))
    for line in summary.notes:
        note("[yellow]note[/] {}", line)
    for name, why in summary.failed.items():
        note("[yellow]note[/] {} is left out: {}", name, why)


def command(
    task: str,
    words: list[str],
    seconds: float | None,
    updates: int | None,
    only: str | None,
    rung: list[str] | None,
    metric: str | None,
    folder: Path,
    skip_bad_lines: bool,
    imports: list[str] | None,
) -> str:
    """The command that resumes the ladder."""
    options: list[str] = []
    for name, value in (("--seconds", seconds), ("--updates", updates), ("--only", only), ("--metric", metric)):
        options += [] if value is None else [name, str(value)]
    options += [word for path in rung or [] for word in ("--rung", path)]
    options += [word for path in imports or [] for word in ("--import", path)]
    options += ["--skip-bad-lines"] if skip_bad_lines else []
    return shlex.join(["weft", "ladder", task, *words, *options, "--out", str(folder), "--resume"])
