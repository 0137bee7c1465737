"""weft new TASK"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports, read_imports


def new(
    task: Annotated[
        str, typer.Argument(help="lm, mask, classify, regress, tag, translate, caption, forecast or embed.")
    ],
    kind: Annotated[
        str | None, typer.Option("--kind", "-k", help="The kind of network: rnn, transformer; lm also conv.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of to standard output.")] = None,
    imports: Imports = None,
) -> None:
    """Write a config file with every setting explained.

    Examples:
    weft new translate --out my.toml
    weft new classify --kind transformer
    weft new count --import count.py:Count
    """
    from weft.catalog import TASKS
    from weft.cli.output import note, write
    from weft.config import template, unknown_task
    from weft.errors import ConfigError

    read_imports(imports)
    if task not in TASKS:
        raise unknown_task(task, where=f'"{task}"')
    text = template(task, kind=kind)
    if out is None:
        write(text)
        return
    if out.exists():
        raise ConfigError("exists already", where=str(out), cure="choose another --out")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(out)) from None
    again = " ".join([str(out), *(f"--import {word}" for word in imports or [])])
    note("Wrote {}. Edit the data section, then: [bold]weft train {}[/]", out, again)
