"""Source and target texts: a table, or two files that correspond line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from weft.data.badlines import BadLines, at_least_one
from weft.data.columns import Column
from weft.data.records import Pair
from weft.data.sources import STDIN, Paths, decode, each_path, raw_lines
from weft.data.tables import LAYOUT, Layout, Table, read_table
from weft.errors import DataError, counted

Sides: TypeAlias = tuple[str, str, str]
"""Source, target and their place; a side may be empty."""


def read_pairs(
    path: Paths,
    *,
    source: Column = "source",
    target: Column = "target",
    language: Column | None = None,
    many: bool = False,
    layout: Layout = LAYOUT,
    bad: BadLines,
) -> Iterator[Pair]:
    """Yield the pairs of a table (`source`, `target` and `language` name its columns) or of parallel files `[source,
    target]`.

    A pair with an empty side is skipped and counted in `bad.empty`. With `many` a row has several targets, in several
    columns or in a list, and each makes a pair.
    """
    match each_path(path):
        case [name]:
            columns = {"source": source, "target": target} | ({} if language is None else {"language": language})
            table = read_table(name, columns, layout=layout, bad=bad)
            if many or language is not None:
                pairs = _read_rows(table, many=many, language=language is not None, bad=bad)
            else:
                pairs = _filled(table.texts("source", "target", bad), bad)
            yield from at_least_one(pairs, name, bad)
        case [left, right] if language is not None:
            cure = "give a table with a column for it"
            raise DataError("parallel files have no column of languages", where=f"{left} and {right}", cure=cure)
        case [left, right]:
            yield from at_least_one(_filled(_read_parallel(left, right, bad), bad), f"{left} and {right}", bad)
        case names:
            cure = "give one table, or two parallel files: [source, target]"
            raise DataError(f"{len(names)} files of pairs", where=", ".join(names) or None, cure=cure)


def _filled(rows: Iterator[Sides], bad: BadLines) -> Iterator[Pair]:
    for source, target, place in rows:
        if source and target:
            yield Pair(source, target, place)
        else:
            bad.empty += 1


def _read_rows(table: Table, *, many: bool, language: bool, bad: BadLines) -> Iterator[Pair]:
    """Yield the pairs of each row of a table, with their language."""
    for row in table:
        try:
            source = table.text("source", row)
            targets = table.values("target", row) if many else [table.text("target", row)]
            spoken = table.text("language", row) if language else None
        except DataError as error:
            bad.report(error)
            continue
        if spoken == "":
            bad.report(DataError("the language is empty", where=row.place, cure="fill it in"))
        elif source and any(targets):
            yield from (Pair(source, target, row.place, spoken) for target in targets)
        else:
            bad.empty += 1


def group_references(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Yield one pair for each source and language, in the order of their first pairs, with all targets as references.

    A target that is there twice counts once.
    """
    found: dict[tuple[str, str | None], list[Pair]] = {}
    for pair in pairs:
        found.setdefault((pair.key, pair.language), []).append(pair)
    for first, *others in found.values():
        targets = dict.fromkeys(text for pair in (first, *others) for text in pair.accepted)
        yield replace(first, references=tuple(targets))


def _read_parallel(left: str, right: str, bad: BadLines) -> Iterator[Sides]:
    """Yield line n of one file with line n of the other. Lines are raw, so that a bad one skips its partner too."""
    if left == right == STDIN:
        raise DataError("both sides are -", cure="only one of two parallel files can be the standard input")
    sources, targets = raw_lines(left), raw_lines(right)
    number = 0
    for number, source in sources:
        _, target = next(targets, (0, None))
        if target is None:
            raise _uneven((left, number + sum(1 for _ in sources)), (right, number - 1))
        try:
            row = decode(source, left, number).strip(), decode(target, right, number).strip(), f"{left}:{number}"
        except DataError as error:
            bad.report(error)
            continue
        yield row
    if more := sum(1 for _ in targets):
        raise _uneven((left, number), (right, number + more))


def _uneven(*files: tuple[str, int]) -> DataError:
    counts = " but ".join(f"{name} has {counted(count, 'line')}" for name, count in files)
    where = f"{files[0][0]}:{min(count for _, count in files) + 1}"
    return DataError(f"parallel files of uneven length: {counts}", where=where, cure="line n must belong to line n")
