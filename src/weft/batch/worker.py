"""Answers parts with one model: in this process, or in each actor of a cluster."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.batch.source import Part, rows_of
from weft.data import BadLines, RowInputs, chunks, read_rows
from weft.documents import to_json
from weft.errors import DataError
from weft.run.folder.files import MANIFEST

if TYPE_CHECKING:
    from weft.data import Record
    from weft.run import Run
    from weft.tasks import Prediction

MAX_NAMED_ROWS: Final = 100
"""Bad rows of a part whose errors are kept; the others are counted."""


@dataclass(frozen=True)
class ImportedFile:
    """A file of the user's own classes, with its content for machines that do not have it."""

    name: str | None
    path: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class Work:
    """Settings of all parts: the model, the options and the columns of each file."""

    run: Path
    manifest: str
    """The hash of the run's manifest."""
    inputs: tuple[RowInputs, ...]
    options: Mapping[str, Any]
    imports: tuple[ImportedFile, ...] = ()
    skip_bad_lines: bool = False
    device: str = "auto"
    threads: int | None = None


@dataclass
class Worker:
    """A model and its options; `answer` makes the file of a part."""

    work: Work
    run: Run
    size: int = field(init=False)

    def __post_init__(self) -> None:
        from weft.run.inputs import chunk_inputs

        self.size = chunk_inputs(self.run)

    def answer(self, part: Part, content: bytes) -> bytes:
        """Return the file of a part: a line about it, then a line for each row, as `weft predict --json` prints it."""
        inputs, bad = self.work.inputs[part.file], _NamedRows(skip=self.work.skip_bad_lines)
        rows = read_rows(inputs, rows_of(content, inputs.format, part), bad)
        lines: list[str] = []
        numbers: list[int] = []
        keys: dict[str, None] = {}
        fields: dict[str, None] = {}
        notes: Counter[str] = Counter()
        for chunk in chunks(rows, self.size):
            records = [self._record(item, bad) for _, _, item in chunk]
            kept = [record for record in records if not isinstance(record, DataError) and record is not None]
            found = iter(self._predict(kept, bad))
            for (number, values, _), record in zip(chunk, records, strict=True):
                answer = None if record is None or isinstance(record, DataError) else next(found)
                if isinstance(record, DataError) or isinstance(answer, DataError):
                    continue
                keys |= dict.fromkeys(values)
                numbers.append(number)
                if answer is None:
                    lines.append("null")
                    continue
                tree = answer.record()
                fields |= dict.fromkeys(name for name in tree if name not in answer.repeats)
                notes.update([answer.shortcoming] if answer.shortcoming else [])
                lines.append(to_json(tree))
        header = {
            "rows": len(lines),
            "numbers": _ranges(numbers),
            "keys": list(keys),
            "fields": list(fields),
            "bad": bad.count,
            "named": bad.named,
            "notes": notes,
        }
        return "".join(f"{line}\n" for line in (to_json(header), *lines)).encode()

    def _record(self, item: Any, bad: BadLines) -> Record | DataError | None:
        from weft.run.inputs import input_record

        try:
            return input_record(self.run, item)
        except DataError as error:
            bad.report(error)
            return error

    def _predict(self, records: list[Record], bad: BadLines) -> list[Prediction | DataError]:
        """Answer records; if one of them cannot be answered and bad rows are skipped, each is answered alone."""
        if not records:
            return []
        try:
            return [*self.run.predict(records, **self.work.options)]
        except DataError as error:
            if not bad.skip:
                raise
            if len(records) == 1:
                bad.report(error)
                return [error]
        return [found for record in records for found in self._predict([record], bad)]


class _NamedRows(BadLines):
    """Counts bad rows, and keeps the errors of the first of them."""

    def __init__(self, *, skip: bool) -> None:
        super().__init__(skip=skip)
        self.named: list[str] = []

    def report(self, error: DataError) -> None:
        super().report(error)
        if len(self.named) < MAX_NAMED_ROWS:
            self.named.append(str(error))


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Rising numbers as ranges [first, last]."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def load_worker(work: Work, shipped: Mapping[str, bytes] | None = None) -> Worker:
    """Load the model of a batch on this machine: from the run folder, or from the files that were `shipped`."""
    from weft.run import import_classes, load
    from weft.training.device import set_threads

    if work.threads is not None:
        set_threads(work.threads)
    with ExitStack() as stack:
        folder = partial(_new_folder, stack)
        cells = import_classes([_place_import(one, folder) for one in work.imports])
        run = work.run
        if shipped is not None and hash_file(run / MANIFEST) != work.manifest:
            run = folder()
            for name, content in shipped.items():
                (run / name).write_bytes(content)
        return Worker(work, load(run, device=work.device, cells=cells))


def _new_folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-")))


def _place_import(one: ImportedFile, folder: Any) -> str:
    """The word of --import on this machine, whose file is written if it is not there as it was."""
    path = Path(one.path)
    if not path.is_file() or path.read_bytes() != one.content:
        path = folder() / path.name
        path.write_bytes(one.content)
    return f"{path}:{one.kind}" if one.name is None else f"{one.name}={path}:{one.kind}"


def hash_file(path: Path) -> str | None:
    """The SHA-256 of a small file; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
