"""Options that several verbs have."""

from __future__ import annotations

from typing import Annotated

import typer


def _check_device(name: str) -> str:
    """The name of a device that can be used; an error before anything is read."""
    if name != "auto":
        from weft.training import choose_device

        choose_device(name, where="--device")
    return name


Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto takes CUDA where there is one.", callback=_check_device)]

BenchDevice = Annotated[str, typer.Option(help="cpu or cuda; auto takes CUDA where there is one.")]

SkipBadLines = Annotated[
    bool, typer.Option("--skip-bad-lines", help="Count lines that cannot be read instead of stopping.")
]
