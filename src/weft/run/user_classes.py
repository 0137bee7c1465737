"""Classes of a user's own from `[NAME=]FILE.py:CLASS`: cells, tasks, and the settings of encoders and decoders.

This is the only place where weft executes a file, and it does so only for a file that is named on the command line: a
run folder holds the name of a cell, a task, an encoder or a decoder, never where its code is.
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
from typing import Any, TypeAlias

from weft.catalog import CATALOG, CELLS, PARTS, TASKS
from weft.config import Config, networks
from weft.config.tree import flatten
from weft.errors import ConfigError, did_you_mean
from weft.models import PartSettings
from weft.nn import Cell
from weft.tasks import Task

MODULE_PREFIX = "weft_import_"
"""The name of an imported module begins with it, so that errors raised in one can be recognised."""

IMPORT_OPTION = re.compile(r"(?:(?P<name>\w+)=)?(?P<file>.+):(?P<kind>\w+)")

UserClass: TypeAlias = type[Cell] | type[Task] | type[PartSettings]

BASES: tuple[type, ...] = (Cell, Task, PartSettings)

TASK_ATTRIBUTES = ("name", "summary", "metric", "metrics", "sections")


def user_cell_names(config: Config) -> list[str]:
    """Return the names of cells that weft does not have: their classes are needed to load the run."""
    kinds = (value for path, value in flatten(config.tree()) if path.endswith(".cell.kind"))
    return sorted({kind for kind in kinds if kind not in CELLS})


def has_user_class(config: Config) -> bool:
    """Return whether a run uses a class that weft does not have."""
    return bool(user_cell_names(config) or user_parts(config))


def user_parts(config: Config) -> list[str]:
    """Return the lines of Python that add the task, encoder and decoder of a run to the catalog, where they are not
    weft's own."""
    named: list[tuple[str, dict[str, Any], type]] = [(config.task, TASKS, TASKS[config.task])]
    for _, table in networks(config.model):
        joined = (parts for method in PARTS for parts in PARTS[method])
        places = {kind: (name, parts, kind) for parts in reversed([*joined]) for name, kind in parts.items()}
        # Settings that are combined with those of a head are a subclass of the user's.
        named += [places[kind] for kind in type(table).__mro__ if kind in places][:1]
    names = {id(parts): name.upper() for name, parts in CATALOG.items()}
    return [f'weft.catalog.{names[id(parts)]}["{name}"] = …' for name, parts, kind in named if _is_user_class(kind)]


def _is_user_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] != "weft"


def import_classes(words: Iterable[str]) -> dict[str, type[Cell]]:
    """Import the classes that the words name. Cells are returned by name, which is that of the class unless the word
    has another; tasks, encoders and decoders join the dicts of the catalog for as long as the process runs."""
    cells: dict[str, type[Cell]] = {}
    modules: dict[Path, ModuleType] = {}
    for word in words:
        match, where = IMPORT_OPTION.fullmatch(word), f'--import "{word}"'
        if match is None:
            raise ConfigError("is not a class to import", where=where, cure="write FILE.py:CLASS")
        path = Path(match["file"])
        if path not in modules:
            modules[path] = _execute(path)
        found = _pick(modules[path], match["kind"], path)
        if not issubclass(found, Cell):
            if match["name"]:
                raise ConfigError("only a cell can be renamed", where=where, cure=f"leave out {match['name']}=")
            _register(found, where=f"--import {path}")
            continue
        name = match["name"] or match["kind"]
        if name in cells:
            raise ConfigError(f'gives a second cell the name "{name}"', where=where, cure="use NAME=…")
        cells[name] = found
    return cells


def _register(found: type[Task] | type[PartSettings], *, where: str) -> None:
    """Add a task to `TASKS`, or settings to the dicts of the parts that they build."""
    if issubclass(found, Task):
        builds = any({"build", "network"} & vars(base).keys() for base in found.__mro__ if base is not Task)
        missing = [name for name in TASK_ATTRIBUTES if not hasattr(found, name)]
        missing += sorted({*found.__abstractmethods__, *(() if builds else ("build",))})
        joined: list[dict[str, Any]] = [TASKS]
        name = getattr(found, "name", "")
    else:
        fields = found.model_fields
        methods = [method for method in PARTS if hasattr(found, method)] or list(PARTS)[:1]
        wanted = ["kind", "vectors", *methods, *(["tie"] if "build_decoder" in methods else [])]
        missing = [name for name in wanted if name not in fields and not hasattr(found, name)]
        joined = [parts for method in methods for parts in PARTS[method]]
        name = fields["kind"].default if "kind" in fields else ""
    if missing:
        raise ConfigError(f"{found.__name__} has no {', '.join(missing)}", where=where, cure="see docs/extending.md")
    for parts in joined:
        if name in parts and not _is_user_class(parts[name]):
            cure = f"rename {found.__name__}.{'name' if issubclass(found, Task) else 'kind'}"
            raise ConfigError(f'weft has a part named "{name}" already', where=where, cure=cure)
        parts[name] = found


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


def _pick(module: ModuleType, name: str, path: Path) -> UserClass:
    classes: dict[str, Any] = {
        found: value
        for found, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BASES) and value not in BASES
    }
    if name not in classes:
        own = [found for found, value in classes.items() if value.__module__ == module.__name__]
        bases = "weft.nn.Cell, weft.tasks.Task or weft.models.PartSettings"
        cure = did_you_mean(name, own) if own else f"it must be a subclass of {bases}"
        raise ConfigError(
            f'has no cell, task or settings of a model named "{name}"', where=f"--import {path}", cure=cure
        )
    found: UserClass = classes[name]
    return found
