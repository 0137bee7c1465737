"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer


def _check_device(name: str) -> str:
    """Return the name of a device; raise if it cannot be used, before anything is read."""
    if name != "auto":
        from weft.training import choose_device

        choose_device(name, where="--device")
    return name


Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto uses CUDA if there is one.", callback=_check_device)]

BenchDevice = Annotated[str, typer.Option(help="cpu or cuda; auto uses CUDA if there is one.")]

SkipBadLines = Annotated[
    bool, typer.Option("--skip-bad-lines", help="Skip and count lines that cannot be read instead of stopping.")
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
