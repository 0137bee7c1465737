"""weft inspect parameters|alignment, and the commands of the modules that are imported here"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import inspect_search
from weft.cli.imports import Imports, read_imports
from weft.cli.inspecting import app

if TYPE_CHECKING:
    from torch import nn

    from weft.inspect import Part

__all__ = ["app", "inspect_search"]

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
    json: Annotated[bool, typer.Option("--json", help="Print all parts as JSON.")] = False,
    imports: Imports = None,
) -> None:
    """List the parameters of a model part by part, with the formula of each count.

    Without a run, settings that you leave out have their fixed defaults, because no data is read.

    Examples:
    weft inspect parameters runs/translate-1
    weft inspect parameters my.toml --words 37000
    weft inspect parameters lm model.kind=transformer model.layers=12
    """
    from weft.cli.output import print_json
    from weft.inspect import count_parameters

    model = find_model(what, settings or [], words=words, labels=labels, imports=imports)
    found = count_parameters(model)
    if json:
        print_json({"total": found.total, **found.tree()})
    else:
        show(found)


@app.command()
def alignment(
    run: Annotated[Path, typer.Argument(help="The run folder of a translator or captioner with attention.")],
    text: Annotated[str, typer.Argument(help="A text to translate, or the path of a picture.", metavar="TEXT|PICTURE")],
    language: Annotated[
        str | None, typer.Option(help="The language to translate to, where the run has several.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Draw attention over a picture to this PNG.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print tokens and weights as JSON.")] = False,
    imports: Imports = None,
) -> None:
    """Translate a text or write the caption of a picture, and show what each written token attended to.

    Examples:
    weft inspect alignment runs/cmudict through
    weft inspect alignment runs/fashion boot.png --out attention.png
    """
    from weft.cli.output import print_json, say
    from weft.inspect import align
    from weft.inspect.picture import draw_attention
    from weft.run import load

    options = {} if language is None else {"language": language}
    found = align(load(run, cells=read_imports(imports)), text, **options)
    if out is not None:
        draw_attention(found, text, out)
    if json:
        print_json(found.tree())
        return
    say("{}", found.text)
    for line in found.lines():
        say("{}", line)


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

    cells = read_imports(imports)
    if Path(what).is_dir():
        if settings:
            cure = "leave them out, or name a config file or a task"
            raise ConfigError("a trained model has its settings", where=settings[0], cure=cure)
        if given := next((name for name, size in (("--words", words), ("--labels", labels)) if size), None):
            raise ConfigError("a trained model has its sizes", where=given, cure="leave it out")
        return load(what, device="cpu", cells=cells).model
    if strange := next((word for word in settings if not OVERRIDE.match(word)), None):
        raise ConfigError("is not a setting", where=strange, cure="write key=value; no data is read")
    # A task without a config file has no data.train, which validation requires; nothing is read.
    tree = read(what, [*(["data.train="] if what in TASKS else []), *settings], cells)
    config = validate(tree, cells=cells, keep_unread=True)
    if labels and TASKS[config.task].label_column is None:
        raise ConfigError(f"{config.task} has no labels", where="--labels", cure="leave it out")
    return sketch(config, words=words or DEFAULT_WORDS, labels=labels or DEFAULT_LABELS)


def show(found: Part) -> None:
    """Print a table with a line for each part, below the part that contains it."""
    from rich import box
    from rich.table import Table

    from weft.cli.output import literal, screen
    from weft.console import SafeConsole

    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("part", "kind", "shape", "formula", "where"):
        table.add_column(heading, no_wrap=True)
    for heading in ("each", "parameters"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part, depth, times in found.rows():
        shapes = ", ".join("×".join(map(str, shape)) or "1" for shape in part.shapes)
        shared = ", ".join(f"as {name}" for name in part.shared)
        formula, sizes = part.formula or "", part.formula.sizes if part.formula else {}
        cells = (
            "  " * depth + (part.name or "all"),
            part.kind,
            ", ".join(filter(None, [shapes, shared])),
            str(formula),
            " ".join(f"{letter}={size}" for letter, size in sizes.items()),
            f"{part.count:,}" if times > 1 else "",
            f"{part.count * times:,}",
        )
        table.add_row(*map(literal, cells))
    # A line that is too long for the window is better than a number without its last digits.
    width = SafeConsole(width=1000).measure(table).maximum
    SafeConsole(width=max(width, screen.width)).print(table)
