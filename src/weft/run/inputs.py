"""Data that a caller gives: Python objects in a configuration or call, and files that predictions are made for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from weft.config import merge, read_tree
from weft.config.tree import check_key, nest
from weft.data import BadLines, Input, InputFile, Objects, Record, each_row, find_objects
from weft.data.columns import Column
from weft.data.inputs import LineInputs
from weft.decoding import DecodeConfig
from weft.errors import ConfigError, DataError
from weft.settings import show
from weft.tasks import Task, Tree

if TYPE_CHECKING:
    from weft.run.run import Run

PARTS: Final = ("train", "valid", "test")

CHUNK_INPUTS: Final = {"cpu": 512, "cuda": 8192}
"""Inputs that are answered in one call, by device: a GPU answers many in the time of a few."""

PythonData: TypeAlias = Mapping[str, Objects]
"""Data given in Python, by the name that stands for it in the configuration."""

NO_PYTHON_DATA: Final[PythonData] = {}


def take_python_data(source: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[Tree, PythonData]:
    """Replace the Python data in a configuration, which is not yet checked, by names; return both."""
    tree = dict(source) if isinstance(source, Mapping) else read_tree(source)
    if not isinstance(overrides, Mapping):
        cure = 'give a dict, such as {"train.rate": 3e-4}'
        raise ConfigError("are no settings", where=f"overrides = {show(overrides)}", cure=cure)
    for path, value in overrides.items():
        check_key(path)
        section, _, part = path.partition(".")
        if section == "data" and part in PARTS:  # data may be a dict of columns, which is no table of settings
            tree["data"] = {**tree.get("data", {}), part: value}
        else:
            tree = merge(tree, nest(path, value))
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return tree, NO_PYTHON_DATA  # an error when the configuration is read
    python_data, plain = dict[str, Objects](), dict(data)
    for part in PARTS:
        if data.get(part) is not None and not isinstance(data[part], int | float):  # a size is checked with the rest
            found = find_source(data[part], f"data.{part}")
            plain[part] = str(found) if isinstance(found, Objects) else found
            python_data |= {str(found): found} if isinstance(found, Objects) else {}
    return {**tree, "data": plain}, python_data


def find_source(data: Any, name: str) -> str | list[str] | Objects:
    """Return Python data as objects, and one path or several as plain strings."""
    found = find_objects(data, name)
    if found is not None:
        return found
    paths = [os.fspath(path) for path in ([data] if isinstance(data, str | os.PathLike) else data)]
    for path in paths:
        if "\0" in path:
            raise DataError("has a NUL, which no path can have", where=f"{name} = {path!a:.100}")
    return paths[0] if isinstance(data, str | os.PathLike) else paths


def each_input(inputs: Any) -> Iterator[Any]:
    """Iterate over the inputs of `Run.predict`, given as any kind of sequence."""
    if inputs is None:
        raise DataError("None is no input", where="inputs", cure='give a text, such as "…", or a list of texts')
    if isinstance(inputs, os.PathLike):
        cure = "read the file first, or: weft predict RUN FILE"
        raise DataError("a path, where texts are expected", where="inputs", cure=cure)
    return each_row(inputs, "inputs")


def read_records(
    task: Task | type[Task], source: str | list[str] | Objects, data: Any, bad: BadLines
) -> Iterator[Record]:
    """Read the records of a file or of Python data, as the `[data]` section describes them."""
    if isinstance(source, Objects):
        return task.read_objects(source, data, bad)
    return task.read(source, data, bad)


def open_input_file(
    run: Run,
    name: str | None,
    *,
    decode: DecodeConfig,
    format: str | None = None,
    columns: Sequence[str] = (),
    probabilities: bool = False,
) -> InputFile:
    """Open a file, or `-`, in the given format or that of its suffix; `columns` replace those of the run."""
    own = run.task.columns(run.config.data)
    names = run.task.answer_columns(own.predicted, n_best=decode.n_best, probabilities=probabilities)
    return run.task.open_inputs(name, format=format, column=_read_columns(columns), names=names)


def skip_lines(inputs: InputFile) -> InputFile:
    """Return a file of plain lines that answers those that are not UTF-8 like empty ones."""
    if not isinstance(inputs, LineInputs):
        cure = "leave it out, or add --out FILE.jsonl for rows of JSON lines and Parquet"
        raise ConfigError("is for plain lines", where="--skip-bad-lines", cure=cure)
    return replace(inputs, skip_bad=True)


def chunk_inputs(run: Run) -> int:
    """Return how many inputs of a file are answered in one call, by the device of the model."""
    return CHUNK_INPUTS.get(next(run.model.parameters()).device.type, CHUNK_INPUTS["cpu"])


def input_record(run: Run, item: Input) -> Record | None:
    """Return the record of an input, with its place; None where it has no text."""
    if item.source is None:
        return None
    record = replace(run.task.record(item.source), place=item.place)
    return record if item.language is None else run.task.with_language(record, item.language)


def _read_columns(words: Sequence[str]) -> Column | None:
    """Read columns as they are written on a command line: names, or numbers counted from 0."""
    found = [int(word) if word.isdecimal() else word for word in words]
    return None if not found else found[0] if len(found) == 1 else found
