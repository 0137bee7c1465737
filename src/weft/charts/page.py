"""A page with figures that opens from disk without a network: scripts, styles and data are all inside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, NamedTuple

from weft.charts.theme import ON_DARK, THEMES
from weft.console import visible

FOLDER: Final = Path(__file__).parent

MAX_TABLE_ROWS: Final = 2000
"""Rows of the table below a figure; the file that `--json` writes has all of them."""


NOTE_CHARACTERS: Final = 110
"""Characters of a line of the note in a picture."""


class Table(NamedTuple):
    """The data of a figure as text, for those who cannot see it and those who want numbers."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str | float | int, ...]]


class Figure(NamedTuple):
    """A chart with the words that explain it."""

    title: str
    summary: str
    """One or two sentences: what is shown, and how to read it."""
    specification: dict[str, Any] | None
    """The chart in Vega-Lite, without a theme; None for a figure that is words alone."""
    equation: str = ""
    code: str = ""
    """The Python call that returns the same data."""
    table: Table | None = None
    subject: str = ""
    """The run and the input that it shows."""
    note: str = ""
    """The line of a picture below its title; a page has it in the summary."""
    more_tables: tuple[tuple[str, Table], ...] = ()
    """Tables below that of the data, each with its name."""

    def titled(self) -> dict[str, Any]:
        """The chart with title and subject in it, for a picture, which has no words around it."""
        assert self.specification is not None, "a figure without a chart is words, which only a page holds"
        if not self.title or "title" in self.specification:
            return self.specification
        below = [*filter(None, [self.subject, *wrap(self.note, NOTE_CHARACTERS)])]
        subtitle = {"subtitle": below} if below else {}
        return {**self.specification, "title": {"text": self.title, "offset": 14, **subtitle}}


class LinkedScript(NamedTuple):
    """A script in a file beside the page, for pages that share one: its address relative to the page."""

    address: str


def page(title: str, figures: Sequence[Figure], vega: str | LinkedScript, *, before: str = "") -> str:
    """Return the HTML of a page; `vega` is the script that draws charts, `before` is markup above the figures.

    A Content-Security-Policy allows the scripts of the page by their hashes and nothing else, so a token that looks
    like markup can do no harm even if it were not escaped. Browsers check no hash of a file that is opened from disk,
    so a linked script is allowed by its place.
    """
    figure_script = (FOLDER / "figure.js").read_text(encoding="utf-8")
    start = (FOLDER / "page.js").read_text(encoding="utf-8")
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    own = f"{figure_script.replace('export ', '')}\n{start}"
    data = {"themes": {**THEMES, "on_dark": ON_DARK}, "charts": [figure.specification for figure in figures]}
    if isinstance(vega, LinkedScript):
        allowed, drawing = "'self' file:", f'<script src="{escape(vega.address)}"></script>'
    else:
        allowed, drawing = _hash(vega), f"<script>{vega}</script>"
    policy = (
        f"default-src 'none'; script-src {allowed} {_hash(own)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    sections = [figure._replace(title="") if figure.title == title else figure for figure in figures]
    body = "\n".join(_section(number, figure) for number, figure in enumerate(sections))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{style}</style></head>\n<body><main>\n<h1>{_text(title)}</h1>\n{before}{body}\n"
        f'</main>\n<script type="application/json" id="data">{embed_json(data)}</script>\n'
        f"{drawing}\n<script>{own}</script>\n</body></html>\n"
    )


def embed_json(value: Any) -> str:
    """Return JSON that may stand inside a script element of a page: no text in it can end the element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _section(number: int, figure: Figure) -> str:
    heading = f"<h2>{_text(figure.title)}</h2>\n" if figure.title else ""
    chart = "" if figure.specification is None else f'<div class="chart" id="chart-{number}"></div>\n'
    parts = [
        f"<details><summary>{name}</summary><pre>{_text(text)}</pre></details>"
        for name, text in (("the equation", figure.equation), ("the code", figure.code))
        if text
    ]
    if figure.table is not None:
        opened = " open" if figure.specification is None else ""
        parts.append(f"<details{opened}><summary>the numbers</summary>{_table(figure.table)}</details>")
    for name, table in figure.more_tables:
        parts.append(f"<details open><summary>{_text(name)}</summary>{_table(table)}</details>")
    unfolded = "\n".join(parts)
    subject = f'<p class="subject">{_text(figure.subject)}</p>\n' if figure.subject else ""
    return f"<section>\n{heading}{subject}<p>{_text(figure.summary)}</p>\n{chart}{unfolded}\n</section>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in table.headings)
    rows = [
        f"<tr>{''.join(f'<td>{_text(show(cell))}</td>' for cell in row)}</tr>" for row in table.rows[:MAX_TABLE_ROWS]
    ]
    left = len(table.rows) - MAX_TABLE_ROWS
    more = f"<p>{left:,} more rows are in the data.</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def show(cell: str | float | int) -> str:
    """Return a cell of a table as text, numbers with four digits."""
    return f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def _text(text: str) -> str:
    return escape(visible(text))


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
