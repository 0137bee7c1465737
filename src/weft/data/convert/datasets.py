"""Hugging Face data sets become JSON lines, a file for each split; labels that are numbers get their names.

A data set is a name, or NAME:CONFIGURATION. Only the local cache is read, unless a download is requested.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from weft.data.convert.contract import Converted, Converter
from weft.data.convert.parquet import json_line
from weft.errors import DataError, WeftError
from weft.extras import EXTRAS

OFFLINE: Final = ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE")
SPLITS: Final = {"validation": "valid", "dev": "valid"}


def read(files: list[str], *, download: bool = False) -> Iterator[Converted]:
    name, _, configuration = files[0].partition(":")
    for split, rows in _load(name, configuration or None, download=download).items():
        names = {key: kind.names for key, kind in rows.features.items() if getattr(kind, "names", None)}
        for number, row in enumerate(rows):
            named = {key: _name(value, names.get(key)) for key, value in row.items()}
            yield json_line(SPLITS.get(split, split), named, f"{name}:{split}:{number + 1}")


def _load(name: str, configuration: str | None, *, download: bool) -> Any:
    if not download:
        os.environ.update(dict.fromkeys(OFFLINE, "1"))  # read when the package is imported
    try:
        from datasets import load_dataset
    except ImportError:
        raise WeftError("data sets of Hugging Face need datasets", cure=EXTRAS["data"].install) from None
    try:
        return load_dataset(name, configuration)
    except Exception as error:  # the package raises errors of many types
        cure = "check the name" if download else "it is not in the local cache; --download fetches it"
        reason = str(error).partition("\n")[0]
        raise DataError(f"cannot be loaded: {reason:.200}", where=name, cure=cure) from None


def _name(value: Any, names: list[str] | None) -> Any:
    return names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value


HUGGINGFACE = Converter(
    "the name of one data set, or NAME:CONFIGURATION",
    read,
    suffix=".jsonl",
    header="",
    distinct=False,
    files=(1, 1),
    network=True,
)
