"""weft inspect gates|states"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.imports import Imports
from weft.cli.inspecting import Dark, InputText, Json, Out, RunFolder, Target, app, open_run, show_run, show_view

Part = Annotated[str | None, typer.Option(help="encoder or decoder; by default the first that has states.")]
Layer = Annotated[int | None, typer.Option(help="Layer from 1; by default the last.", min=1)]
Direction = Annotated[str | None, typer.Option(help="forward or backward.", show_default="forward")]


@app.command()
def gates(
    run: RunFolder,
    text: InputText,
    target: Target = None,
    part: Part = None,
    layer: Layer = None,
    direction: Direction = None,
    values: Annotated[
        str | None, typer.Option(help="gates, or all: candidates and states too.", show_default="gates")
    ] = None,
    units: Annotated[int | None, typer.Option(help="Units shown of each gate.", show_default="12")] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show the gates of a recurrent layer at each token, by the names in the cell's equations.

    Examples:
    weft inspect gates runs/lm-1 "the cat sleeps"
    weft inspect gates runs/demo "a red house" --part decoder -o gates.html
    """
    options = {"part": part, "layer": layer, "direction": direction, "values": values, "units": units}
    show_run("gates", run, text, target=target, out=out, json=json, dark=dark, imports=imports, **options)


@app.command()
def states(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="A text, or a file of texts to search in.", metavar="TEXT|FILE")],
    target: Target = None,
    inside: Annotated[
        tuple[str, str] | None,
        typer.Option(help="With a file: rank units by how well they are on between two marks.", metavar="OPEN CLOSE"),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="With a file: units that are on in the part of this text between [[ and ]], and where else they are.",
            metavar="TEXT",
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="With a file: where these units are on together, as in 12,40.", metavar="UNITS")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="With --inside or --on: a unit is on beyond this value.", show_default="fitted")
    ] = None,
    top: Annotated[int | None, typer.Option(help="With a file: units and places listed.", min=1, max=1000)] = None,
    tokens: Annotated[
        int | None, typer.Option(help="With a file: tokens that are read at most.", min=1, show_default="200,000")
    ] = None,
    part: Part = None,
    layer: Layer = None,
    direction: Direction = None,
    state: Annotated[
        str | None, typer.Option(help="A state of the cell's equations, such as c; by default its output.")
    ] = None,
    units: Annotated[int | None, typer.Option(help="With a text: units shown.", show_default="24")] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show the value of each unit at each token of a text, or search a file for what units react to.

    Examples:
    weft inspect states runs/lm-1 "the cat sleeps" -o states.png
    weft inspect states runs/lm-1 valid.txt
    weft inspect states runs/lm-1 valid.txt --inside '(' ')' --state c
    weft inspect states runs/lm-1 valid.txt --like 'he said "\\[\\[come in]]" and left'
    weft inspect states runs/lm-1 valid.txt --on 12,40
    """
    search = {"inside": inside, "like": like, "units": read_units(on), "threshold": threshold, "top": top}
    given = {name: value for name, value in (search | {"limit": tokens}).items() if value is not None}
    about = {"part": part, "layer": layer, "direction": direction, "state": state}
    shown = {"units": units, "target": target}
    show_states(run, text, about, given, shown, out=out, json=json, dark=dark, imports=imports)


def show_states(
    folder: str,
    text: str,
    about: dict[str, Any],
    search: dict[str, Any],
    shown: dict[str, Any],
    *,
    out: Path | None,
    json: bool,
    dark: bool,
    imports: list[str] | None,
) -> None:
    """Show the states of a text, or search a file of texts."""
    from weft.errors import ConfigError
    from weft.inspect import check_ending, search_states
    from weft.inspect.calls import loading
    from weft.inspect.unit_states import KIND

    if out is not None:
        check_ending(out)
    about = {name: value for name, value in about.items() if value is not None}
    shown = {name: value for name, value in shown.items() if value is not None}
    chosen = KIND.check_options(about)
    run = open_run(folder, imports)
    if run.task.reads_files or not is_file(text):
        if not run.task.reads_files and looks_like_a_file(text):
            cure = "is it in another folder? If it is a text, write a blank after it"
            raise ConfigError("there is no such file", where=text, cure=cure)
        if name := next(iter(search), None):
            option = {"units": "on", "limit": "tokens"}.get(name, name)
            raise ConfigError("searches a file of texts", where=f"--{option}", cure="name a file in place of the text")
        show_view(KIND.show(run, text, **shown, **about), out=out, json=json, dark=dark)
        return
    if name := next(iter(shown), None):
        raise ConfigError("is for a text, and a file is searched", where=f"--{name}", cure="leave it out")
    found = search_states(run, Path(text), **chosen, **search)
    named = [f"{name}={value!r}" for name, value in {**chosen, **search}.items()]
    first = [loading(run), f'Path("{text}")']
    found.with_code(f"from pathlib import Path\n\nweft.inspect.search_states({', '.join([*first, *named])})")
    show_view(found, out=out, json=json, dark=dark)


def is_file(text: str) -> bool:
    """Return whether a text names a file; a text of several lines or too many characters for a name does not."""
    try:
        return bool(text) and "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or a character that no name has
        return False


def looks_like_a_file(text: str) -> bool:
    """Return whether a text is one word that is a path or ends as files of data do: data/valid, valid.tsv.gz."""
    from weft.studio.discovery import DATA_SUFFIXES

    return not any(map(str.isspace, text)) and (os.sep in text or text.lower().endswith(DATA_SUFFIXES))


def read_units(text: str | None) -> list[int] | None:
    """Return the numbers of "12,40"."""
    if text is None:
        return None
    from weft.errors import ConfigError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{text!r:.40} are no units", where="--on", cure="give their numbers, as in 12,40") from None
