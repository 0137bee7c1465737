"""weft import FILE --out RUN"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    file: Annotated[Path, typer.Argument(help="An n-gram model as an ARPA file, plain, .gz or .xz.")],
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", metavar="DIR", show_default="runs/lm-N")
    ] = None,
) -> None:
    """Make a run of a model that other software has trained.

    An ARPA file, as KenLM and SRILM write them, becomes a language model of its words, cut at blanks.

    Examples:
    weft import news.arpa --out runs/news
    weft evaluate runs/news test.txt
    """
    from weft.cli.output import note
    from weft.importing import import_arpa

    note("written: [bold]{}[/]", import_arpa(file, out=out).folder)
