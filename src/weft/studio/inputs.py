"""Inputs that a page sends, as a run reads them: texts, pairs, words, pictures, tables. None of them is ever a path."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.errors import DataError
from weft.serve.inputs import input_kind, read_picture

if TYPE_CHECKING:
    from weft.run import Run

MAX_CHARACTERS: Final = 200_000
"""Characters of a text or a table."""

MAX_ROWS: Final = 20_000

EXAMPLES: Final = 5
"""Inputs of a run's own data that a page offers to try."""

MAX_EXAMPLE_CHARACTERS: Final = 300
EXAMPLE_ROWS: Final = 400
"""Rows of a table that is offered to try."""

SENTENCES: Final = ("The small cat sleeps.", "They read the old book.", "The dog sees a black bird.")
"""Texts to try where a run was trained on the phrasebook and its data cannot be read."""

PHRASEBOOK: Final = "phrasebook"


class Example(NamedTuple):
    """An input of a run's own data, and its answer there; "" where it has none."""

    text: str
    answer: str = ""


def read_text(run: Run, text: str) -> Any:
    """Return the input that a page sent, as `Run.predict` and views take it; raise a DataError where it is none."""
    kind = input_kind(run)
    if kind == "picture":
        return read_picture(text)
    if len(text) > MAX_CHARACTERS:
        what = f"{len(text):,} characters, and {MAX_CHARACTERS:,} is the limit"
        raise DataError(what, where="text", cure="send a part of it")
    if kind == "table":
        return _read_table(run, text)
    if kind == "pair":
        first, tab, second = text.partition("\t")
        if not tab:
            raise DataError("is one text, and this run reads two", where="text", cure="put a tab between them")
        return first, second
    return text


def _read_table(run: Run, text: str) -> Any:
    """CSV with a header line -> rows by their columns, or for feature vectors and plain series lists of numbers."""
    columns = run.task.columns(run.config.data)
    given = [line for line in text.splitlines() if line.strip()]
    if not given:
        raise DataError("is empty", where="the table", cure="paste rows of numbers")
    if len(given) > MAX_ROWS:
        raise DataError(f"{len(given):,} rows, and {MAX_ROWS:,} is the limit", where="the table", cure="send the end")
    rows = _cells("\n".join(given))
    if columns.steps or _is_number(rows[0][0]):
        return _numbers(rows) if columns.steps else [value for row in _numbers(rows) for value in row]
    head, *body = rows
    if not body:
        raise DataError("is a line of column names without rows", where="the table", cure="paste the rows too")
    return [dict(zip(head, row, strict=False)) for row in body]


def _cells(table: str) -> list[list[str]]:
    head = table.partition("\n")[0]
    delimiter = "\t" if "\t" in head else ";" if ";" in head and "," not in head else ","
    try:
        return list(csv.reader(io.StringIO(table), delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"cannot be read: {error}", where="the table", cure="paste a CSV") from None


def _with_open_end(run: Run, table: str) -> str:
    """Return the table so that a run which reads columns of the future can forecast its end: the last rows of each
    series, as many as the horizon, lose their targets."""
    data: Any = run.config.data
    if not getattr(data, "known", None):
        return table
    head, *rows = _cells(table)
    columns = data.layout
    place = head.index(columns.series) if columns.series in head else None
    targets = [number for number, name in enumerate(head) if name in columns.target]
    left: Counter[str] = Counter()
    for row in reversed(rows):
        series = "" if place is None else row[place]
        left[series] += 1
        if left[series] <= data.horizon:
            for number in targets:
                row[number] = ""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([head, *rows])
    return written.getvalue()


def _numbers(rows: list[list[str]]) -> list[list[float]]:
    try:
        return [[float(cell) for cell in row] for row in rows]
    except ValueError:
        raise DataError("has a cell that is no number", where="the table", cure="paste numbers alone") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def example_inputs(run: Run, folders: list[Path]) -> list[str]:
    """Return the texts of `find_examples`."""
    return [example.text for example in find_examples(run, folders)]


def find_examples(run: Run, folders: list[Path]) -> list[Example]:
    """Return inputs to try: some of the run's validation data where that file lies in one of the folders, else
    sentences of weft's own for a run of the phrasebook; none for pictures and tables that are not there."""
    for part in ("valid", "test", "train"):
        path = getattr(run.config.data, part, None)
        if isinstance(path, str) and (found := _inside(path, folders)) is not None:
            examples = _read_examples(run, found)
            if examples:
                return examples
    if input_kind(run) in ("text", "words") and _learned_phrasebook(run):
        return list(map(Example, SENTENCES))
    return []


def examples_hint(run: Run) -> str:
    """Return how to have the run's own data as inputs to try."""
    path = getattr(run.config.data, "valid", None) or getattr(run.config.data, "train", None)
    hint = "Inputs of the run's own data stand here if the studio is started with their folder too"
    if not isinstance(path, str) or not path:
        return hint
    folder = Path(path).parent
    return f"{hint}, the one that has {path}" if folder == Path() else f"{hint}: {folder}"


def _learned_phrasebook(run: Run) -> bool:
    """Return whether the training data is in the folder that `weft data make phrasebook` writes."""
    path = getattr(run.config.data, "train", None)
    return isinstance(path, str) and PHRASEBOOK in Path(path).parts[:-1]


def _inside(path: str, folders: list[Path]) -> str | None:
    """Return the path where it is a file below one of the folders, links resolved."""
    try:
        real = Path(path).resolve(strict=True)
        inside = real.is_file() and any(real.is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, ValueError):
        return None
    return str(real) if inside else None


def _read_examples(run: Run, path: str) -> list[Example]:
    from weft.data import BadLines
    from weft.data.sources import lines
    from weft.errors import WeftError

    try:
        if input_kind(run) == "table":
            table = "\n".join(line for _, line in islice(lines(path, BadLines(skip=True)), EXAMPLE_ROWS))
            return [Example(_with_open_end(run, table[:MAX_CHARACTERS]))]
        records = islice(run.task.read(path, run.config.data, BadLines(skip=True)), EXAMPLES)
        found = [Example(_show(record), _answer(record)) for record in records]
    except (WeftError, OSError):
        return []
    return [example for example in found if example.text]


def _answer(record: Any) -> str:
    """Return the answer of a record as text."""
    from weft.data.records import labels_of

    tags, number = getattr(record, "tags", None), getattr(record, "number", None)
    if number is not None:
        return f"{number:g}"
    if tags is not None:
        return " ".join(tags)
    accepted = [text for text in getattr(record, "accepted", ()) if text]
    return " / ".join(accepted) or ", ".join(labels_of(record))


def _show(record: Any) -> str:
    """Return a record as the text of an input."""
    if getattr(record, "picture", None) is not None or getattr(record, "steps", None) is not None:
        return ""
    words = getattr(record, "words", None)
    text = " ".join(words) if words else getattr(record, "source", None) or getattr(record, "text", "")
    second = getattr(record, "second", None)
    shown = text if second is None else f"{text}\t{second}"
    return str(shown)[:MAX_EXAMPLE_CHARACTERS]
