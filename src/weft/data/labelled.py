"""Inputs with one answer: a table, or for classes a folder with one file or one folder per class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.data.answers import Whole, make_record
from weft.data.badlines import BadLines, at_least_one
from weft.data.columns import Column
from weft.data.example_columns import Columns, show_column
from weft.data.records import Labelled, Measured
from weft.data.sources import Paths, each_path, has_surrogate, lines, suffix
from weft.data.step_rows import read_step_rows
from weft.data.steps import pick_steps
from weft.data.tables import LAYOUT, Layout, Row, Table, read_table
from weft.errors import DataError

PARTS = ("train", "training", "valid", "validation", "val", "dev", "test")
"""Names of folders that hold parts of a data set."""

_ENDINGS = (".txt", ".txt.gz", ".txt.xz")


def read_labelled(
    path: Paths, *, text: Column = "text", label: Column = "label", layout: Layout = LAYOUT, bad: BadLines
) -> Iterator[Labelled]:
    """Yield the examples of tables and of folders of classes; `text` and `label` name the columns of a table."""
    return read_answered(path, Columns(Labelled, text, label), layout=layout, bad=bad)


def read_answered(path: Paths, columns: Columns, *, layout: Layout = LAYOUT, bad: BadLines) -> Iterator[Any]:
    """Yield the examples of tables and of folders of classes, each a record of the type that `columns` names."""
    for name in each_path(path):
        if Path(name).is_dir():
            yield from _read_folder(name, columns, bad)
        else:
            yield from at_least_one(_read_table(name, columns, layout, bad), name, bad)


def _read_table(name: str, columns: Columns, layout: Layout, bad: BadLines) -> Iterator[Any]:
    if columns.steps and suffix(name) == ".conllu":
        cure = "give JSON lines, a TSV or a CSV, or remove data.features"
        raise DataError("is CoNLL-U, which has words and no feature vectors", where=name, cure=cure)
    if columns.steps and layout.kind_of(name) in ("tsv", "csv"):
        yield from read_step_rows(name, columns, layout, bad)
        return
    table = read_table(name, columns.settings(), layout=layout, bad=bad)
    if columns.plain:
        for text, label, place in table.texts("text", "label", bad):
            if text and label:
                yield Labelled(text, label, place)
            else:
                bad.report(_empty("label" if text else "text", place))
        return
    for row in table:
        try:
            record = _read_row(table, row, columns)
        except DataError as error:
            bad.report(error)
            continue
        yield record


def _read_row(table: Table, row: Row, columns: Columns) -> Any:
    """The record of a row, whose input may be two texts or steps, and whose answer is of any kind."""
    if columns.steps:
        whole = Whole("", None, pick_steps(lambda key: table.look_up(row, str(key)), columns.input, row.place))
    else:
        second = None if columns.second is None else table.text("pair", row)
        whole = Whole(table.text("text", row), second)
        if not whole.text or second == "":
            raise _empty("pair" if whole.text else "text", row.place)
    read = table.text if columns.record is Labelled else table.value
    answer = read(columns.answer_setting, row)
    if answer == "" and columns.record is Labelled:
        raise _empty("label", row.place)
    assert columns.answer is not None
    name = show_column(columns.answer)
    return make_record(columns.record, whole, answer, name=name, separator=columns.separator, place=row.place)


def _empty(what: str, place: str) -> DataError:
    return DataError(f"the {what} is empty", where=place, cure="fill it in or remove the line")


def _read_folder(folder: str, columns: Columns, bad: BadLines) -> Iterator[Any]:
    """Read the classes of a folder by name: `LABEL.txt` with a text per line, or `LABEL/*.txt` with a text per file."""
    if columns.record is Measured or columns.second is not None or columns.steps:
        cure = "give a table: TSV, CSV or JSON lines"
        raise DataError("is a folder of classes, with one text and one label for each example", where=folder, cure=cure)
    for record in _read_classes(folder, bad):
        yield make_record(
            columns.record, Whole(record.text), record.label, name=folder, separator="\0", place=record.place
        )


def _read_classes(folder: str, bad: BadLines) -> Iterator[Labelled]:
    files = {file: _label(file) for file in _texts_in(folder)}
    if odd := next((one.name for one in Path(folder).iterdir() if has_surrogate(one.name)), None):
        raise DataError(f"the name {os.fsencode(odd)!r} is not UTF-8", where=folder, cure="rename it")
    folders = [one for one in sorted(Path(folder).iterdir()) if one.is_dir() and one.name[0] != "." and _texts_in(one)]
    parts = sorted((one for one in folders if one.name.lower() in PARTS), key=lambda one: PARTS.index(one.name.lower()))
    if len(files) < 2 and parts:
        what = f"holds parts of a data set, not classes: {', '.join(one.name for one in folders)}"
        raise DataError(what, where=folder, cure=f"name one of them, such as {parts[0]}")
    if len(folders) > 1 and not parts:
        if files:
            bad.note(f"{folder}: the classes are its folders; not read: {', '.join(file.name for file in files)}")
        for one in folders:
            for file in _texts_in(one):
                yield from _read_whole(str(file), one.name, bad)
        return
    if not files:
        cure = "write one file per class, a text per line, or one folder per class, a text per file"
        raise DataError("no LABEL.txt files and no LABEL/*.txt in the folder", where=folder, cure=cure)
    if double := next((label for label, count in Counter(files.values()).items() if count > 1), None):
        cure = f"remove {' or '.join(file.name for file, label in files.items() if label == double)}"
        raise DataError(f'two files for the label "{double}"', where=folder, cure=cure)
    for file, label in files.items():
        yield from at_least_one(_read_class(str(file), label, bad), str(file), bad)


def _texts_in(folder: str | Path) -> list[Path]:
    """The text files of a folder, sorted by name, without hidden ones."""
    return [file for file in sorted(Path(folder).iterdir()) if _label(file) and not file.name.startswith(".")]


def _label(file: Path) -> str:
    """The name of a text file without its ending; empty for any other file."""
    return next((file.name.removesuffix(ending) for ending in _ENDINGS if file.name.endswith(ending)), "")


def _read_class(name: str, label: str, bad: BadLines) -> Iterator[Labelled]:
    for number, line in lines(name, bad):
        if text := line.strip():
            yield Labelled(text, label, f"{name}:{number}")


def _read_whole(name: str, label: str, bad: BadLines) -> Iterator[Labelled]:
    """Read a whole file as one text, with its line ends."""
    if text := "\n".join(line for _, line in lines(name, bad)).strip():
        yield Labelled(text, label, f"{name}:1")
    else:
        bad.report(DataError("the text is empty", where=name, cure="fill it in or remove the file"))
