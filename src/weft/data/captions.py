"""Pictures with captions: a table whose rows have a picture, or feature vectors of one, and one or more captions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.data.badlines import BadLines, at_least_one
from weft.data.example_columns import Columns
from weft.data.images import Picture, beside, open_picture
from weft.data.records import Pair
from weft.data.sources import Paths, each_path
from weft.data.steps import Steps, read_steps
from weft.data.tables import LAYOUT, Layout, Row, Table, read_table
from weft.errors import DataError

MAX_FEATURE_NUMBERS = 1 << 24
"""Numbers of the feature vectors of a picture."""


def read_captions(path: Paths, columns: Columns, *, layout: Layout = LAYOUT, bad: BadLines) -> Iterator[Pair]:
    """Yield a pair for each caption of each row of a table. A row without a caption is skipped and counted.

    Paths of pictures and of `.npy` files are relative to the folder of the table. Where bad lines are skipped, each
    picture is decoded once more than else, because a damaged one must be known before anything is learned.
    """
    names = each_path(path)
    if len(names) != 1:
        raise DataError(f"{len(names)} files of captions", where=", ".join(names), cure="give one table")
    table = read_table(names[0], columns.settings(), layout=layout, bad=bad)
    yield from at_least_one(_each_pair(table, columns, bad), names[0], bad)


def _each_pair(table: Table, columns: Columns, bad: BadLines) -> Iterator[Pair]:
    seen: dict[str, Picture] = {}
    for row in table:
        try:
            source = read_source(table, row, columns, seen=seen, whole=bad.skip)
            captions = table.values("caption", row)
        except DataError as error:
            bad.report(error)
            continue
        if not captions:
            bad.empty += 1
        for caption in captions:
            yield source_pair(source, caption, row.place)


def read_source(
    table: Table, row: Row, columns: Columns, *, seen: dict[str, Picture] | None = None, whole: bool = False
) -> Picture | Steps:
    """The picture that a row names, with its pixels where `columns.pixels` has their shape, or its feature vectors;
    `seen` are pictures that were opened before."""
    if columns.steps:
        return read_features(table.value("features", row), table.name, row.place)
    name = table.text("image", row)
    if not name:
        raise DataError("names no picture", where=row.place, cure="fill it in, or remove the line")
    path = beside(table.name, name)
    seen = {} if seen is None else seen
    if path not in seen:
        seen[path] = open_picture(path, name=name, place=row.place, whole=whole, pixels=columns.pixels)
    return seen[path]


def read_features(value: Any, base: str, place: str) -> Steps:
    """Feature vectors of a picture: nested lists, one vector, or the path of a `.npy` file beside `base`."""
    if isinstance(value, str):
        value = _read_npy(beside(base, value.strip()), place)
    array = np.asarray(value) if hasattr(value, "__array__") else value
    if isinstance(array, np.ndarray) and array.ndim == 3:  # a grid of positions
        array = array.reshape(-1, array.shape[2])
    single = not isinstance(array, np.ndarray) and isinstance(array, list) and array and not isinstance(array[0], list)
    if single or (isinstance(array, np.ndarray) and array.ndim == 1):
        array = [array]
    return read_steps(array, "features", place)


def _read_npy(path: str, place: str) -> np.ndarray[Any, Any]:
    where = place or path
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        cure = "check the path; in a file it is relative to that file's folder"
        raise DataError(f"{path}: no such file", where=where, cure=cure) from None
    except Exception as error:  # of a damaged header numpy raises what Python's parser does
        what = f"{path}: no .npy file of numbers: {ascii(str(error))[1:-1]:.200}"
        raise DataError(what, where=where, cure="write it with numpy.save, as an array of numbers") from None
    if not isinstance(array, np.ndarray) or array.ndim not in (1, 2, 3) or array.dtype.kind not in "fiu":
        what = f"{path}: holds no array of numbers with 1 to 3 dimensions"
        raise DataError(what, where=where, cure="save (D,), (T, D) or (H, W, D)")
    if not 0 < array.size <= MAX_FEATURE_NUMBERS:
        what = f"{path}: {array.size:,} numbers, where 1 to {MAX_FEATURE_NUMBERS:,} are allowed"
        raise DataError(what, where=where, cure="save the features of one picture")
    return np.array(array)


def source_pair(source: Picture | Steps, caption: str | None = None, place: str = "") -> Pair:
    """A pair whose source is a picture or feature vectors."""
    if isinstance(source, Steps):
        return Pair("", caption, place, steps=source)
    return Pair("", caption, place, picture=source)
