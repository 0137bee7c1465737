"""Python expressions that repeat what was shown: loading a run, and the input that it read."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Final

from weft.data.images import Picture
from weft.errors import show_path
from weft.run import Run
from weft.run.user_classes import MODULE_PREFIX, user_cell_names

PICTURE: Final = "picture.png"
"""The file in the code for a picture that a page sent, which has no name here."""


def loading(run: Any) -> str:
    """The expression that loads a run, with the user's own cells."""
    if isinstance(run, Path):
        return repr(str(run))
    if not isinstance(run, Run):
        return "model"
    return f'weft.load("{run.folder}"{_cells(run)})'


def _cells(run: Run) -> str:
    """The argument with the classes of cells; those of --import are imported from their files again."""
    names = user_cell_names(run.config)
    if not names:
        return ""
    kinds = {type(module) for module in run.model.modules() if type(module).__module__.startswith(MODULE_PREFIX)}
    files = {kind.__name__: show_path(str(sys.modules[kind.__module__].__file__)) for kind in kinds}
    if all(name in files for name in names):
        return f", cells=weft.run.import_classes({[f'{files[name]}:{name}' for name in names]!r})"
    own = ", ".join(f'"{name}": {name}' for name in names)
    return f", cells={{{own}}}"


def written(given: Any) -> str:
    """The expression of an input: a literal, of a table with a line for each row, or a name for what has none."""
    if isinstance(given, Path):
        return repr(str(given))
    if isinstance(given, list) and given and isinstance(given[0], list | dict):
        return "".join(["[\n", *(f"    {_literal(row)},\n" for row in given), "]"])
    return _literal(given)


def _literal(given: Any) -> str:
    match given:
        case float() if not math.isfinite(given):
            return f'float("{given}")'
        case str() | int() | float() | None:
            return repr(given)
        case list():
            return f"[{', '.join(map(_literal, given))}]"
        case tuple():
            return f"({', '.join(map(_literal, given))}{',' if len(given) == 1 else ''})"
        case dict():
            return f"{{{', '.join(f'{_literal(key)}: {_literal(value)}' for key, value in given.items())}}}"
    return repr(PICTURE) if isinstance(given, Picture) else "inputs"
