"""Views of `weft.inspect` as plain values: their controls, and the picture of one run and one input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.charts import Table
from weft.errors import ConfigError, did_you_mean
from weft.serve import HTTPError
from weft.serve.inputs import input_kind
from weft.studio.inputs import read_text

if TYPE_CHECKING:
    from weft.inspect import View, ViewKind
    from weft.run import Run

MAX_TABLE_ROWS: Final = 2000
"""Rows of a view's table that a page gets; the data has all numbers."""

OF_TABLES: Final = ("attention", "states", "gates", "gradients")
"""Views that a run has which reads numbers."""


def available_views() -> dict[str, ViewKind]:
    """Return the views whose modules can be imported, in the order of `weft.inspect.VIEWS`."""
    from weft.inspect import VIEWS

    found: dict[str, ViewKind] = {}
    for name in VIEWS:
        try:
            found[name] = find_view(name)
        except HTTPError:
            continue
    return found


def find_view(name: str) -> ViewKind:
    """Return the view of that name; 404 where weft knows none, 501 where this version has no module for it."""
    from weft.inspect import VIEWS, view_kind

    if name not in VIEWS:
        raise HTTPError(404, f"there is no view {name!r:.60}", cure=did_you_mean(name[:60], VIEWS))
    try:
        return view_kind(name)
    except ModuleNotFoundError:
        raise HTTPError(501, f"this version of weft has no view {name}", cure="choose another view") from None


def describe_views() -> list[dict[str, Any]]:
    """Return the views with their options, from which a page builds its controls."""
    return [
        {
            "name": name,
            "question": kind.question,
            "takes_text": kind.takes_text,
            "takes_target": kind.takes_target,
            "options": {option: value._asdict() for option, value in kind.options.items() if value.of_runs},
        }
        for name, kind in available_views().items()
    ]


def views_of(run: Run) -> list[str]:
    """Return the views that make sense for a run: of a table of numbers those that need no words."""
    table = input_kind(run) == "table"
    return [name for name, kind in available_views().items() if not (table and kind.takes_text) or name in OF_TABLES]


def show(name: str, run: Run, *, text: str | None, target: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of a run, and of a text where the view takes one."""
    kind = find_view(name)
    kind.check_options(options)
    if kind.takes_text and not (text and text.strip()):
        raise ConfigError("is missing", where="text", cure=f"{name} shows what the model does with an input")
    source = read_source(kind, run, text) if kind.takes_text and text is not None else None
    return describe(kind.show(run, source, target=target or None, **options), question=kind.question)


def read_source(kind: ViewKind, run: Run, text: str) -> Any:
    """Return the input of a view; of a picture there are no words, so their map is shown without a question."""
    if not kind.reads_words:
        return read_text(run, text)
    return None if input_kind(run) == "picture" else text


def show_curves(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the learning curves of a folder, which need no model: a training in its first epoch has none yet."""
    kind = find_view("curves")
    return describe(kind.show(folder, **kind.check_options(options)), question=kind.question)


def describe(view: View, *, question: str = "") -> dict[str, Any]:
    """Return all of a view as plain values."""
    figure = view.figure()
    table = figure.table or Table((), ())
    return {
        "view": view.name,
        "title": figure.title,
        "summary": figure.summary,
        "equation": figure.equation,
        "code": figure.code,
        "question": question,
        "data": view.to_dict(),
        "specification": figure.specification,
        "table": {"headings": list(table.headings), "rows": [list(row) for row in table.rows[:MAX_TABLE_ROWS]]},
    }
