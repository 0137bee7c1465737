"""weft inspect: the views of its own modules, and the table of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import inspect_attention, inspect_gradients, inspect_inside, inspect_search
from weft.cli.imports import Imports, read_imports
from weft.cli.inspecting import Dark, Json, Out, app, show_view

if TYPE_CHECKING:
    from torch import nn

__all__ = ["app", "inspect_attention", "inspect_gradients", "inspect_inside", "inspect_search"]

DEFAULT_WORDS, DEFAULT_LABELS = 8000, 2
"""Entries of the vocabulary and labels of a model that was not trained, without --words and --labels."""


@app.command()
def parameters(
    what: Annotated[str, typer.Argument(help="A run folder, a config file, or a task.", metavar="RUN|CONFIG|TASK")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="With a config file or a task: settings.", metavar="key=value"),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(help="Without a run: entries of the vocabulary, on each side.", min=1, show_default="8000"),
    ] = None,
    labels: Annotated[
        int | None, typer.Option(help="Without a run: labels of a classifier or tagger.", min=1, show_default="2")
    ] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """List the parameters of a model part by part, with the formula of each count.

    Without a run, settings that you leave out have their fixed defaults, because no data is read.

    Examples:
    weft inspect parameters runs/translate-1
    weft inspect parameters my.toml --words 37000
    weft inspect parameters lm model.kind=transformer model.layers=12
    """
    from weft.inspect import check_ending
    from weft.inspect import parameters as count

    if out is not None:
        check_ending(out)
    model = find_model(what, settings or [], words=words, labels=labels, imports=imports)
    call = f'weft.inspect.parameters(weft.load("{what}"))' if Path(what).is_dir() else "weft.inspect.parameters(model)"
    show_view(count(model).with_code(call), out=out, json=json, dark=dark)


@app.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, also of trainings in progress.", metavar="RUN…")],
    metric: Annotated[str | None, typer.Option(help="The validation metric; by default that of the first run.")] = None,
    log: Annotated[bool, typer.Option("--log", help="In a picture: the loss on a logarithmic axis.")] = False,
    smooth: Annotated[
        float,
        typer.Option(
            help="In a picture: the loss of training as a running mean; near 1 is smoother.",
            min=0,
            max=0.99,
        ),
    ] = 0.0,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
) -> None:
    """Show learning curves: loss and validation metric over the updates, of one run or several.

    Examples:
    weft inspect curves runs/translate-1
    weft inspect curves runs/rnn runs/transformer -o curves.html
    """
    from weft.inspect import check_ending
    from weft.inspect import curves as learning_curves

    if out is not None:
        check_ending(out)
    named = ", ".join(f'"{run}"' for run in runs)
    given = {"metric": metric, "log": log or None, "smooth": smooth or None}
    options = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
    view = learning_curves(runs, metric=metric, log=log, smooth=smooth)
    show_view(view.with_code(f"weft.inspect.curves([{named}]{options})"), out=out, json=json, dark=dark)


def find_model(
    what: str, settings: list[str], *, words: int | None, labels: int | None, imports: list[str] | None
) -> nn.Module:
    """Load the model of a run, or build an untrained one from a config file or a task."""
    from weft.catalog import TASKS
    from weft.cli.train import OVERRIDE, read
    from weft.config import validate
    from weft.errors import ConfigError
    from weft.inspect import sketch
    from weft.run import load
    from weft.run.hub.address import is_address

    cells = read_imports(imports)
    if is_address(what) or Path(what).is_dir():
        if settings:
            cure = "leave them out, or name a config file or a task"
            raise ConfigError("a trained model has its settings", where=settings[0], cure=cure)
        if given := next((name for name, size in (("--words", words), ("--labels", labels)) if size), None):
            raise ConfigError("a trained model has its sizes", where=given, cure="leave it out")
        return load(what, device="cpu", cells=cells).model
    if what not in TASKS and Path(what).suffix not in (".toml", ".json") and "/" in what and not Path(what).exists():
        raise ConfigError("there is no such run", where=what, cure="name a run folder, a config file or a task")
    if strange := next((word for word in settings if not OVERRIDE.match(word)), None):
        raise ConfigError("is not a setting", where=strange, cure="write key=value; no data is read")
    # A task without a config file has no data.train, which validation requires; nothing is read.
    tree = read(what, [*(["data.train="] if what in TASKS else []), *settings], cells)
    config = validate(tree, cells=cells, keep_unread=True)
    if labels and TASKS[config.task].label_column is None:
        raise ConfigError(f"{config.task} has no labels", where="--labels", cure="leave it out")
    return sketch(config, words=words or DEFAULT_WORDS, labels=labels or DEFAULT_LABELS)
