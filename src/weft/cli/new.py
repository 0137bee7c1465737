"""weft new TASK"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(
    task: Annotated[str, typer.Argument(help="lm, classify, tag or translate.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of to standard output.")] = None,
) -> None:
    """Write a config file with every setting explained.

    Example: weft new translate --out my.toml
    """
    from weft.catalog import TASKS
    from weft.cli.output import note
    from weft.config import template
    from weft.errors import ConfigError, did_you_mean

    if task not in TASKS:
        raise ConfigError("is not a task", where=f'"{task}"', cure=did_you_mean(task, TASKS))
    text = template(task)
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise ConfigError("exists already", where=str(out), cure="choose another --out")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(out)) from None
    note(f"Wrote {out}. Edit the data section, then: [bold]weft train {out}[/]")
