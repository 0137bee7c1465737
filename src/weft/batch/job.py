"""`predict_files`: files of rows to one file of rows with answers, in parts that are computed once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from weft import limits
from weft.batch.engine import ENGINES, Engine, Setup
from weft.batch.output import Rows, output_format, write_output
from weft.batch.plan import JobFolder, Plan, default_part_rows
from weft.batch.source import Part, Source, check_parquet, cut, find_files, open_source
from weft.batch.worker import ImportedFile, Work, Worker, hash_file, load_worker
from weft.data import BadLines, Column, Paths, RowInputs
from weft.documents import parse_json, to_json
from weft.errors import ConfigError, RunError, did_you_mean
from weft.run.folder.files import MANIFEST, check_path, writing
from weft.run.folder.lock import lock_folder
from weft.run.hub.address import local_folder
from weft.run.inputs import CHUNK_INPUTS
from weft.run.run import Run
from weft.run.user_classes import IMPORT_OPTION

Progress = Callable[["Progressed"], None]


class Progressed(NamedTuple):
    """How far a batch is."""

    parts: int
    of: int
    rows: int
    """Rows that this call has answered."""


@dataclass(frozen=True)
class Answered:
    """The result of a batch."""

    out: Path
    rows: int
    bad: int = 0
    """Rows that are left out because they cannot be read or answered."""
    named: tuple[str, ...] = ()
    """The errors of the first of them in each part, with file and row."""
    parts: int = 0
    computed: int = 0
    """Parts that this call has computed; the others were there."""
    notes: Counter[str] | None = None
    """Shortcomings of answers, with the number of answers that have each."""


def predict_files(
    run: str | Path,
    files: Paths,
    out: str | Path,
    *,
    engine: str = "local",
    actors: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    device: str = "auto",
    columns: Sequence[str | int] = (),
    part_rows: int | None = None,
    skip_bad_lines: bool = False,
    imports: Sequence[str] = (),
    progress: Progress | None = None,
    **options: Any,
) -> Answered:
    """Answer every row of files of JSON lines or Parquet, and write the rows with their answers to one such file.

    The work is done in parts, which are kept in the folder OUT.job until all are finished: the same call goes on where
    one before it was stopped, in whatever way. With engine="ray" the parts are answered by `actors`, each with a model
    of its own, on this machine or on the cluster at `address`. Options are those of `Run.predict`. `imports` are your
    own classes, "FILE.py:CLASS", as `--import` takes them. `progress` is called after each part.
    """
    check_path(run, "run")
    source_folder = local_folder(run)
    check_path(out, "out")
    out = Path(out)
    format = output_format(out)
    names = find_files(files)
    check_parquet(names)
    if engine not in ENGINES:
        raise ConfigError(f'"{engine}" is no engine', where="--engine", cure=did_you_mean(engine, ENGINES))
    _check_count("--part-rows", part_rows, limits.COUNT)
    _check_count("--threads", threads, limits.THREADS)
    _check_count("--actors", actors, limits.THREADS)
    folder = JobFolder.of(out)
    _check_free(out, folder)
    with ENGINES[engine](Setup(actors, threads, address, device)) as started:
        work = Work(
            run=source_folder.resolve(),
            manifest=hash_file(source_folder / MANIFEST) or "",
            inputs=(),
            options=_plain(options),
            imports=tuple(map(_read_import, imports)),
            skip_bad_lines=skip_bad_lines,
            device=started.device,
            threads=started.threads,
        )
        model = load_worker(replace(work, device=started.own_device)).run
        _check(model, options)
        with _locked(folder):
            folder.clean()
            given = part_rows or (folder.read_plan() or {}).get("part_rows")
            step = given if isinstance(given, int) and given > 0 else CHUNK_INPUTS[started.chunk]
            sources = [open_source(name, step=step, bad=BadLines(skip=skip_bad_lines)) for name in names]
            rows = step if given else default_part_rows(sum(source.rows for source in sources), step)
            inputs = tuple(_find_columns(model, source, columns) for source in sources)
            plan = folder.agree(_plan(work, sources, columns, rows))
            if plan.complete is not None and out.exists():
                return Answered(out, plan.complete)
            parts = cut(sources, step=step, rows=rows)
            worker = Worker(replace(work, inputs=inputs), model)
            computed = _answer(folder, started, worker, sources, parts, progress)
            found = Rows(folder, sources, parts)
            write_output(found, out, format)
            folder.write_plan(replace(plan, complete=found.count))
            folder.remove_parts()
    return _summary(out, found, computed)


def _check_free(out: Path, folder: JobFolder) -> None:
    """Raise unless the output can be written, and is new or that of the job in the folder."""
    if out.exists() and folder.read_plan() is None:
        raise RunError("exists already", where=str(out), cure="remove it, or choose another --out")
    if not out.parent.is_dir():
        raise RunError("no such folder", where=str(out.parent), cure="make it, or choose another --out")


@contextmanager
def _locked(folder: JobFolder) -> Iterator[None]:
    """Make and lock the folder of a job; it is removed again if nothing is kept in it."""
    with writing(folder.path, cure="choose another --out"):
        folder.path.mkdir(exist_ok=True)
    try:
        with lock_folder(folder.path, doing="computes this output"):
            yield
    finally:
        with suppress(OSError):  # it is not empty
            folder.path.rmdir()


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """The options as JSON has them, since they are kept with the parts."""
    try:
        plain: dict[str, Any] = parse_json(to_json(options))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"cannot be kept with the parts: {error}", where="options", cure="give plain values"
        ) from None
    return plain


def _plan(work: Work, sources: Sequence[Source], columns: Sequence[str | int], rows: int) -> Plan:
    return Plan(
        run=work.manifest,
        files=tuple(source.digest for source in sources),
        options=work.options,
        columns=tuple(columns),
        imports=tuple(hashlib.sha256(one.content).hexdigest() for one in work.imports),
        part_rows=rows,
    )


def _answer(
    folder: JobFolder,
    engine: Engine,
    worker: Worker,
    sources: Sequence[Source],
    parts: Sequence[Part],
    progress: Progress | None,
) -> int:
    """Answer the parts that are not finished, and return how many they were."""
    done = folder.finished(len(parts))
    todo = [part for part in parts if part.number not in done]
    rows = 0
    for number, content in engine.answer(worker, sources, todo) if todo else ():
        folder.write_part(number, content)
        done.add(number)
        rows += parts[number].rows
        if progress is not None:
            progress(Progressed(len(done), len(parts), rows))
    return len(todo)


def _summary(out: Path, found: Rows, computed: int) -> Answered:
    notes: Counter[str] = Counter()
    for header in found.headers:
        notes.update(header["notes"])
    named = tuple(text for header in found.headers for text in header["named"])
    bad = sum(header["bad"] for header in found.headers)
    return Answered(out, found.count, bad, named, len(found.parts), computed, notes)


def _check_count(name: str, value: int | None, most: int) -> None:
    if value is not None and not 0 < value <= most:
        raise ConfigError("is no such number", where=f"{name} {value}", cure=f"give 1 to {most:,}")


def _check(run: Run, options: dict[str, Any]) -> None:
    """Raise for a task whose inputs are no rows, and for options that have no effect, before anything is read."""
    if not run.task.answers_rows:
        cure = "leave out --out and --engine"
        raise ConfigError("answers whole tables, not rows", where=f'task = "{run.task.name}"', cure=cure)
    wording = ("forbid", "require", "prefix", "forbid_unknown", "attention", "language")
    run.decode({name: value for name, value in options.items() if name not in wording})


def _find_columns(run: Run, source: Source, columns: Sequence[str | int]) -> RowInputs:
    column: Column | None = None if not columns else columns[0] if len(columns) == 1 else [*columns]
    return RowInputs.find(source.name, str(source.path), source.format, source.first, run.task.input_columns(), column)


def _read_import(word: str) -> ImportedFile:
    match, where = IMPORT_OPTION.fullmatch(word), f'--import "{word}"'
    if match is None:
        raise ConfigError("is not a class to import", where=where, cure="write FILE.py:CLASS")
    path = Path(match["file"])
    if not path.is_file():
        raise ConfigError("no such file", where=f"--import {path}")
    return ImportedFile(match["name"], str(path.resolve()), match["kind"], path.read_bytes())
