"""weft inspect attention|positions"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.imports import Imports
from weft.cli.inspecting import Dark, Json, Out, RunFolder, Target, app, show_run


@app.command()
def attention(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="The input, or the path of a picture.", metavar="TEXT|PICTURE")],
    target: Target = None,
    part: Annotated[
        str | None, typer.Option(help="cross, decoder, encoder or pooling; by default the first that there is.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The layer, from 1 on.", show_default="the last")] = None,
    head: Annotated[int | None, typer.Option(help="The head, from 1 on.", show_default="all of them")] = None,
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
