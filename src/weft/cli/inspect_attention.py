"""weft inspect attention|positions"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.imports import Imports
from weft.cli.inspecting import Dark, Json, Out, RunFolder, Target, app, open_run, show_run, show_view


@app.command()
def attention(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="The input, or the path of a picture.", metavar="TEXT|PICTURE")],
    target: Target = None,
    part: Annotated[
        str | None, typer.Option(help="cross, decoder, encoder or pooling; by default the first that there is.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The layer, from 1 on.", min=1, show_default="the last")] = None,
    head: Annotated[int | None, typer.Option(help="The head, from 1 on.", min=1, show_default="all of them")] = None,
    reduce: Annotated[
        str | None, typer.Option(help="How all heads become one map: mean, max or rollout.", show_default="mean")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="The language to translate to, where the run has several.")
    ] = None,
    size: Annotated[int | None, typer.Option(help="Pixels of a small map.", show_default="72")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="With --json: all numbers, also of a long input.")] = False,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show what each token attends to: the alignment of a translation, the picture of a caption, any layer and head.

    Row t of a decoder reads the token before and writes the next one; a row of an alignment is named by what it writes.

    Examples:
    weft inspect attention runs/demo "the red car"
    weft inspect attention runs/demo "the red car" --target "la voiture rouge" -o attention.html
    weft inspect attention runs/gpt2 "to be or not" --layer 5 --head 2
    weft inspect attention runs/fashion boot.png -o attention.png
    """
    show_run(
        "attention",
        run,
        text,
        out=out,
        json=json,
        dark=dark,
        imports=imports,
        target=target,
        part=part,
        layer=layer,
        head=head,
        reduce=reduce,
        language=language,
        size=size,
        whole=whole or None,
    )


@app.command()
def positions(
    what: Annotated[
        str, typer.Argument(help="A run folder, or a kind of positions, such as sinusoid.", metavar="RUN|KIND")
    ],
    width: Annotated[
        int | None, typer.Option(help="With a kind: the features of a position.", show_default="64")
    ] = None,
    length: Annotated[int | None, typer.Option(help="The number of positions.", show_default="100")] = None,
    part: Annotated[
        str | None, typer.Option(help="encoder or decoder; by default the first that has positions.")
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="How two positions are compared: cosine or dot.", show_default="cosine")
    ] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show how a model encodes positions: the vector of each, how similar two are, and how this falls with distance.

    Examples:
    weft inspect positions sinusoid --width 64 --length 100
    weft inspect positions runs/demo -o positions.html
    """
    from weft.errors import ConfigError
    from weft.inspect import check_ending, view_kind
    from weft.nn import POSITIONS
    from weft.run.hub.address import is_address

    options: dict[str, Any] = {"width": width, "length": length, "part": part, "similarity": similarity}
    given = {name: value for name, value in options.items() if value is not None}
    if out is not None:
        check_ending(out)
    kind = view_kind("positions")
    kind.check_options(given)
    if what not in POSITIONS and not is_address(what) and not Path(what).exists():
        cure = f"name a run folder, or one of {', '.join(POSITIONS)}"
        raise ConfigError("is neither a run nor a kind of positions", where=what, cure=cure)
    source: Any = what if what in POSITIONS and not Path(what).is_dir() else open_run(what, imports)
    show_view(kind.show(source, **given), out=out, json=json, dark=dark)
