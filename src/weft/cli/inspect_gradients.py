"""weft inspect gradients"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.inspecting import Dark, Json, Out, Target, app, show_run, show_view


@app.command()
def gradients(
    what: Annotated[
        str, typer.Argument(help="A run folder, or fresh cells such as elman,lstm,gru.", metavar="RUN|CELLS")
    ],
    text: Annotated[str | None, typer.Argument(help="With a run: the input.", metavar="TEXT")] = None,
    target: Target = None,
    length: Annotated[int | None, typer.Option(help="Fresh cells: steps.", min=2, show_default="128")] = None,
    hidden: Annotated[int | None, typer.Option(help="Fresh cells: units.", min=2, show_default="128")] = None,
    radius: Annotated[
        float | None, typer.Option(help="Fresh cells: spectral radius of the matrices that multiply the state.")
    ] = None,
    forget_bias: Annotated[
        float | None, typer.Option(help="Fresh cells: the start of b_f, where a cell has one.", show_default="1")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Fresh cells: random seed.", show_default="0")] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show whether learning reaches the past: the norm of the gradient at each time step and layer.

    With names of cells instead of a run, fresh cells with random weights are compared over random inputs.

    Examples:
    weft inspect gradients runs/translate-1 "the red car"
    weft inspect gradients elman,lstm,gru --length 128 --forget-bias 3 -o flow.html
    weft inspect gradients lstm,MinimalGatedUnit --import mine.py:MinimalGatedUnit
    """
    from weft.errors import ConfigError
    from weft.run.hub.address import is_address

    options: dict[str, Any] = {
        "length": length,
        "hidden": hidden,
        "radius": radius,
        "forget_bias": forget_bias,
        "seed": seed,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if is_address(what) or Path(what).is_dir():
        if given:
            where = f"--{next(iter(given)).replace('_', '-')}"
            raise ConfigError("is an option of fresh cells, and a run has its own", where=where, cure="leave it out")
        show_run("gradients", what, text, target=target, out=out, json=json, dark=dark, imports=imports)
        return
    from weft.inspect import check_ending
    from weft.inspect.gradient_flow import LESSON_OPTIONS
    from weft.inspect.gradient_flow import gradients as flow

    if out is not None:
        check_ending(out)
    cells = _find_cells(what, imports)
    if text is not None or target is not None:
        raise ConfigError("fresh cells read random numbers", where="TEXT", cure="leave it out, or name a run folder")
    checked = {name: LESSON_OPTIONS[name].checked(f"--{name}", value) for name, value in given.items()}
    named = ", ".join(f"{name}={value!r}" for name, value in checked.items())
    call = f"weft.inspect.gradients({what.split(',')!r}{', ' * bool(named)}{named})"
    show_view(
        flow(cells, **checked).with_code(call, ", ".join(f"{name} {value}" for name, value in checked.items())),
        out=out,
        json=json,
        dark=dark,
    )


def _find_cells(what: str, imports: list[str] | None) -> list[Any]:
    """The cells of a list of names, built in or imported."""
    from weft.errors import ConfigError, did_you_mean
    from weft.nn import CELLS

    known: dict[str, Any] = {**CELLS, **read_imports(imports)}
    names = [name.strip() for name in what.split(",")]
    for name in names:
        if name not in known:
            cure = f"{did_you_mean(name, known)}; a run is a folder"
            raise ConfigError("is neither a run folder nor a cell", where=name, cure=cure)
    return [name if name in CELLS else known[name] for name in names]
