"""Options that several verbs have."""

from __future__ import annotations

from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="cpu, cuda, …; auto takes CUDA where there is one.")]

BenchDevice = Annotated[str, typer.Option(help="cpu or cuda; auto takes CUDA where there is one.")]

SkipBadLines = Annotated[
    bool, typer.Option("--skip-bad-lines", help="Count lines that cannot be read instead of stopping.")
]
