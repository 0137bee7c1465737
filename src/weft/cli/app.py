"""The application with all commands, and the entry point `main`, which turns errors into exit codes."""

from __future__ import annotations

import inspect as inspect_code
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli import (
    bench,
    compare,
    config,
    data,
    doctor,
    evaluate,
    export,
    hub,
    importing,
    inspect,
    ladder,
    new,
    parse,
    predict,
    score,
    serve,
    studio,
    sweep,
    train,
)
from weft.cli.failures import report
from weft.cli.output import say
from weft.cli.settings import TakesSettings
from weft.cli.streams import prepare_streams
from weft.console import visible
from weft.version import __version__

GUIDE = f"""[bold]weft {__version__}[/]  sequence models from a file of examples

  [bold]weft train translate pairs.tsv[/]        train on your file; a part is held out to measure
  [bold]weft predict runs/translate-1[/]         a line in, a line out
  [bold]weft evaluate runs/translate-1 test.tsv[/]
  [bold]weft compare runs/translate-1 runs/translate-2[/]
  [bold]weft ladder translate pairs.tsv[/]       models of rising strength in one table
  [bold]weft studio[/]                           runs, and what happens inside them, in a browser
  [bold]weft serve runs/translate-1[/]           answers over HTTP, many clients together
  [bold]weft export runs/translate-1 --to huggingface --out DIR[/]

  [bold]weft new TASK > my.toml[/]               a config file with every setting explained
  [bold]weft data make phrasebook[/]             a small corpus to try all tasks on
  [bold]weft parse GRAMMAR "the cat sleeps"[/]   trees by a context-free grammar
  [bold]weft doctor[/]                           versions, devices, speed of this machine

Tasks  [bold]translate[/] sentence pairs   [bold]classify[/] labelled texts   [bold]regress[/] texts with a number
       [bold]tag[/] tagged words           [bold]lm[/] plain text             [bold]embed[/] word vectors of plain text
       [bold]caption[/] pictures           [bold]forecast[/] tables of numbers  [bold]mask[/] plain text, to start from
Every command has --help.
"""


class Commands(TyperGroup):
    """The commands. typer's errors quote the command line; escape codes in a quoted word are made visible."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        with _visible_words():
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        with _visible_words():
            return super().invoke(ctx)


@contextmanager
def _visible_words() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = visible(message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="weft",
    cls=Commands,
    help="Train, measure and export sequence models from a file of examples.",
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("new")(new.new)
app.command("train", cls=TakesSettings)(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("score")(score.score)
app.command("export")(export.export)
app.command("import")(importing.import_)
app.command("push")(hub.push)
app.command("pull")(hub.pull)
app.command("compare")(compare.compare)
app.command("sweep", cls=TakesSettings)(sweep.sweep)
app.command("ladder", cls=TakesSettings)(ladder.ladder)
app.command("parse")(parse.parse)
app.add_typer(inspect.app, name="inspect")
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.command("serve")(serve.serve)
app.command("studio")(studio.studio)
app.command("doctor")(doctor.doctor)


def reflow(text: str) -> str:
    """Return a docstring with each paragraph on one line, so that --help fits it to the terminal; lists of examples
    keep their lines."""
    paragraphs = inspect_code.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith("Example") else " ".join(paragraph.split()) for paragraph in paragraphs
    )


def _reflow_all(application: typer.Typer) -> None:
    for command in application.registered_commands:
        if command.callback is not None and command.callback.__doc__:
            command.help = reflow(command.callback.__doc__)
    for group in application.registered_groups:
        if group.typer_instance is not None:
            _reflow_all(group.typer_instance)


_reflow_all(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weft {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def guide(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something goes wrong.")] = False,
) -> None:
    """Train, measure and export sequence models from a file of examples."""
    del version, debug  # both act before this runs
    if context.invoked_subcommand is None:
        say(GUIDE)


def main() -> None:
    """Run a command and exit with its code: 2 for a mistake of the user, 1 for a fault, 130 for Ctrl-C."""
    prepare_streams()
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        code = _run()
        sys.stdout.flush()  # here a full disk and a closed pipe still raise different errors
    except (Exception, KeyboardInterrupt) as error:
        code = report(error, command=command, debug=debug)
    sys.exit(code)


def _run() -> str | int | None:
    """Run the application and return its exit code; raise BrokenPipeError for a closed pipe, also from typer."""
    try:
        app(standalone_mode=True)
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):
            raise left.__context__ from None
        return left.code
    return 0
