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
        help="Your own cell, task, encoder or decoder, for configs and runs that name it; the file is executed. "
        "Repeatable.",
        metavar="[NAME=]FILE.py:CLASS",
    ),
]


def read_imports(words: list[str] | None) -> dict[str, type[Cell]]:
    """The cells that --import names; tasks, encoders and decoders are registered for this process."""
    if not words:
        return {}
    from weft.run import import_classes

    return import_classes(words)


def place_in_import(trace: TracebackType | None) -> str | None:
    """FILE:LINE of the innermost frame in an imported file; None if the error came through none."""
    places = [
        f"{show_path(frame.f_code.co_filename)}:{line}"
        for frame, line in traceback.walk_tb(trace)
        if str(frame.f_globals.get("__name__")).startswith(_prefix())
    ]
    return places[-1] if places else None


def imported_files() -> list[str]:
    """The files that --import has executed."""
    modules = [module for name, module in sys.modules.items() if name.startswith(_prefix())]
    return [show_path(str(module.__file__)) for module in modules]


def _prefix() -> str | tuple[str, ...]:
    """How the names of imported modules begin; nothing begins with the empty tuple."""
    user_classes = sys.modules.get("weft.run.user_classes")  # not imported here: that import may be what failed
    return () if user_classes is None else user_classes.MODULE_PREFIX
