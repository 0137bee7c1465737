"""Texts with a class: a table, or a folder with one file per class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weft.data.badlines import BadLines, at_least_one
from weft.data.columns import Column
from weft.data.records import Labelled
from weft.data.sources import Paths, each_path, lines
from weft.data.tables import LAYOUT, Layout, read_table
from weft.errors import DataError

_ENDINGS = (".txt", ".txt.gz", ".txt.xz")


def read_labelled(
    path: Paths, *, text: Column = "text", label: Column = "label", layout: Layout = LAYOUT, bad: BadLines
) -> Iterator[Labelled]:
    """The examples of tables and folders of classes; `text` and `label` say which columns of a table are meant."""
    for name in each_path(path):
        if Path(name).is_dir():
            yield from _read_folder(name, bad)
        else:
            yield from at_least_one(_read_table(name, {"text": text, "label": label}, layout, bad), name, bad)


def _read_table(name: str, columns: dict[str, Column], layout: Layout, bad: BadLines) -> Iterator[Labelled]:
    table = read_table(name, columns, layout=layout, bad=bad)
    for row in table:
        try:
            text, label = table.text("text", row), table.text("label", row)
            if not text or not label:
                what = f"the {'label' if text else 'text'} is empty"
                raise DataError(what, where=row.place, cure="fill it in or remove the line")
        except DataError as error:
            bad.report(error)
            continue
        yield Labelled(text, label, row.place)


def _read_folder(folder: str, bad: BadLines) -> Iterator[Labelled]:
    """One text per line of each file; blank lines are skipped. Files are taken in the order of their names."""
    files: dict[str, Path] = {}
    for file in sorted(Path(folder).iterdir()):
        ending = next((ending for ending in _ENDINGS if file.name.endswith(ending)), None)
        if ending is None or file.name.startswith("."):
            continue
        label = file.name.removesuffix(ending)
        if label in files:
            cure = f"remove {files[label].name} or {file.name}"
            raise DataError(f'two files for the label "{label}"', where=folder, cure=cure)
        files[label] = file
    if not files:
        raise DataError(
            "no LABEL.txt files in the folder", where=folder, cure="write one file per class, a text per line"
        )
    for label, file in files.items():
        yield from at_least_one(_read_class(str(file), label, bad), str(file), bad)


def _read_class(name: str, label: str, bad: BadLines) -> Iterator[Labelled]:
    for number, line in lines(name, bad):
        if text := line.strip():
            yield Labelled(text, label, f"{name}:{number}")
