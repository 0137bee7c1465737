"""--import [NAME=]FILE.py:CLASS, for commands that build or load a model"""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from weft.errors import show_path

if TYPE_CHECKING:
    from weft.nn import Cell

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        help="Your own cell, for configs and runs that name it; the file is executed. Repeatable.",
        metavar="[NAME=]FILE.py:CLASS",
    ),
]


def read_imports(words: list[str] | None) -> dict[str, type[Cell]]:
    """The cells that --import names."""
    if not words:
        return {}
    from weft.run import import_cells

    return import_cells(words)


def place_in_import(trace: TracebackType | None) -> str | None:
    """FILE:LINE of the innermost frame in an imported file; None if the error came through none."""
    user_cells = sys.modules.get("weft.run.user_cells")  # not imported here: that import may be what failed
    if user_cells is None:
        return None
    places = [
        f"{show_path(frame.f_code.co_filename)}:{line}"
        for frame, line in traceback.walk_tb(trace)
        if str(frame.f_globals.get("__name__")).startswith(user_cells.MODULE_PREFIX)
    ]
    return places[-1] if places else None
