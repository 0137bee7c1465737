"""Cells of a user's own: their names in a configuration, and their classes from `[NAME=]FILE.py:CLASS`.

This is the only place where weft executes a file, and it does so only for a file that is named on the command line: a
run folder holds the name of a cell, never where its code is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from weft.catalog import CELLS
from weft.config import Config
from weft.config.tree import flatten
from weft.errors import ConfigError, did_you_mean
from weft.nn import Cell

MODULE_PREFIX = "weft_import_"
"""The name of an imported module begins with it, so that errors raised in one can be recognised."""

CELL_OPTION = re.compile(r"(?:(?P<name>\w+)=)?(?P<file>.+):(?P<kind>\w+)")


def user_cell_names(config: Config) -> list[str]:
    """Return the names of cells that weft does not have: their classes are needed to load the run."""
    kinds = (value for path, value in flatten(config.tree()) if path.endswith(".cell.kind"))
    return sorted({kind for kind in kinds if kind not in CELLS})


def import_cells(words: Iterable[str]) -> dict[str, type[Cell]]:
    """Import the classes that the words name, and return them by name; without a name a class keeps its own."""
    cells: dict[str, type[Cell]] = {}
    modules: dict[Path, ModuleType] = {}
    for word in words:
        match = CELL_OPTION.fullmatch(word)
        if match is None:
            raise ConfigError("is not a cell to import", where=f'--import "{word}"', cure="write FILE.py:CLASS")
        path, name = Path(match["file"]), match["name"] or match["kind"]
        if name in cells:
            raise ConfigError(f'gives a second cell the name "{name}"', where=f'--import "{word}"', cure="use NAME=…")
        if path not in modules:
            modules[path] = _execute(path)
        cells[name] = _pick(modules[path], match["kind"], path)
    return cells


def _execute(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError("no such file", where=f"--import {path}")
    # The path is part of the name, so that two files of one name are two modules.
    name = f"{MODULE_PREFIX}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError("is not a Python file", where=f"--import {path}", cure="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints find their module by its name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(name, None)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        where = f"--import {path}:{lines[-1]}" if lines else f"--import {path}"
        said = next(iter(str(error).splitlines()), "")
        raise ConfigError(f"cannot be run: {type(error).__name__}: {said}", where=where) from error
    return module


def _pick(module: ModuleType, name: str, path: Path) -> type[Cell]:
    classes: dict[str, type[Cell]] = {
        found: value
        for found, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Cell) and value is not Cell
    }
    if name not in classes:
        own = [found for found, value in classes.items() if value.__module__ == module.__name__]
        cure = did_you_mean(name, own) if own else "a cell is a subclass of weft.nn.Cell"
        raise ConfigError(f'has no cell "{name}"', where=f"--import {path}", cure=cure)
    return classes[name]
