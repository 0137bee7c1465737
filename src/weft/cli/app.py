"""All verbs in one application, and what happens to errors."""

from __future__ import annotations

import errno
import io
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Final

import typer

from weft.cli import (
    bench,
    compare,
    config,
    data,
    doctor,
    evaluate,
    export,
    inspect,
    new,
    predict,
    score,
    sweep,
    train,
)
from weft.cli.imports import place_in_import
from weft.cli.output import errors, say
from weft.cli.settings import TakesSettings
from weft.errors import WeftError
from weft.version import __version__

GUIDE = f"""[bold]weft {__version__}[/]  sequence models from a file of examples

  [bold]weft train translate pairs.tsv[/]        train on your file; a part is set aside to measure
  [bold]weft predict runs/translate-1[/]         a line in, a line out
  [bold]weft evaluate runs/translate-1 test.tsv[/]
  [bold]weft compare runs/translate-1 runs/translate-2[/]
  [bold]weft export runs/translate-1 --to huggingface --out DIR[/]

  [bold]weft new TASK > my.toml[/]               a config file with every setting explained
  [bold]weft data make phrasebook[/]             a small corpus to try all tasks on
  [bold]weft bench recurrence[/]                 recurrent layers beside torch.nn, on this machine
  [bold]weft doctor[/]                           versions, devices, speed of this machine

Tasks  [bold]translate[/] sentence pairs   [bold]classify[/] labelled texts
       [bold]tag[/] tagged words           [bold]lm[/] plain text
Every command explains itself with --help.
"""

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system says where it has no room for more."""

app = typer.Typer(
    name="weft",
    help="Sequence models from a file of examples: trained, measured, understood and shipped.",
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
app.command("compare")(compare.compare)
app.command("sweep", cls=TakesSettings)(sweep.sweep)
app.add_typer(inspect.app, name="inspect")
app.add_typer(config.app, name="config")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.command("doctor")(doctor.doctor)


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
    """Sequence models from a file of examples: trained, measured, understood and shipped."""
    del version, debug  # both act before this runs
    if context.invoked_subcommand is None:
        say(GUIDE)


def main() -> None:
    """Run the command line and leave with its exit code: 2 for a person's mistake, 1 for a fault, 130 for Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What is read is UTF-8 wherever we run, and so is what is written.
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]
    try:
        code = app(standalone_mode=True)
    except WeftError as error:
        if debug:
            traceback.print_exc()
        errors.print(f"[bold red]error[/] {_escape(str(error))}", soft_wrap=True)
        code = error.exit_code
    except KeyboardInterrupt:
        errors.print("interrupted")
        code = 130
    except BrokenPipeError:
        # The reader of our output left, as `head` does; the interpreter must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = _full(error) if error.errno in FULL else _fault(error, debug=debug)
    except Exception as error:
        own = place_in_import(error.__traceback__)
        code = _mistake(error, own, debug=debug) if own else _fault(error, debug=debug)
    sys.exit(code)


def _full(error: OSError) -> int:
    errors.print(f"[bold red]error[/] {_escape(error.filename or 'standard output')}: {error.strerror}", soft_wrap=True)
    return 1


def _fault(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
        return 1
    with tempfile.NamedTemporaryFile("w", prefix="weft-", suffix=".log", delete=False, encoding="utf-8") as log:
        traceback.print_exc(file=log)
    errors.print(f"[bold red]fault[/] {type(error).__name__}: {_escape(_first_line(error))}", soft_wrap=True)
    errors.print(f"This is a mistake in weft, not yours. The details are in {Path(log.name)}", soft_wrap=True)
    return 1


def _mistake(error: Exception, place: str, *, debug: bool) -> int:
    """An exception in a file of the user's, which was imported for its cell."""
    if debug:
        traceback.print_exc()
    said = f"{place}: {type(error).__name__}: {_first_line(error)} (in the file you imported; --debug shows more)"
    errors.print(f"[bold red]error[/] {_escape(said)}", soft_wrap=True)
    return WeftError.exit_code


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
