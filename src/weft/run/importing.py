"""Cells of a person's own from a Python file, named on the command line: `[NAME=]FILE.py:CLASS`.

This is the only place where weft executes a file, and it does so only for a file that a person names: a run folder
holds the name of a cell, never where its code is.
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

from weft.errors import ConfigError, did_you_mean
from weft.nn import Cell

PREFIX = "weft_import_"
"""What the name of an imported module begins with; faults in one are told apart by it."""

WORD = re.compile(r"(?:(?P<name>\w+)=)?(?P<file>.+):(?P<kind>\w+)")


def import_cells(words: Iterable[str]) -> dict[str, type[Cell]]:
    """The classes that the words ask for, by their names; without one of its own a class keeps its name."""
    cells: dict[str, type[Cell]] = {}
    modules: dict[Path, ModuleType] = {}
    for word in words:
        match = WORD.fullmatch(word)
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
    # One name for each place, so that files of one name do not stand in each other's way.
    name = f"{PREFIX}{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError("is not a Python file", where=f"--import {path}", cure="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up by its name
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
