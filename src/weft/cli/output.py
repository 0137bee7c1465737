"""Prints data to standard output and messages to standard error.

Control characters are made visible: always in messages and tables, in data only if it goes to a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from weft.console import SafeConsole, styled, visible, visible_json
from weft.documents import to_json

errors = SafeConsole(stderr=True)
screen = SafeConsole()


def say(template: str, *values: object) -> None:
    """Print a line of a result to standard output: markup, and a value for each `{}` in it."""
    screen.print(styled(template, *values), soft_wrap=True)


def note(template: str, *values: object) -> None:
    """Print a message to standard error: markup, and a value for each `{}` in it."""
    errors.print(styled(template, *values), soft_wrap=True)


def print_error(message: object) -> None:
    """Print the one line of an error."""
    note("[bold red]error[/] {}", message)


def write(text: str, *, flush: bool = False) -> None:
    """Write data: unchanged into a file or a pipe, with visible control characters to a terminal."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    if flush:
        sys.stdout.flush()


def show_json(value: Any) -> str:
    """One line of JSON; for a terminal, its control characters are escaped."""
    text = to_json(value)
    return visible_json(text) if sys.stdout.isatty() else text


def print_json(value: Any) -> None:
    write(f"{show_json(value)}\n")


def literal(text: str | Text) -> Text:
    """A cell of a table: brackets are no markup, and control characters are visible."""
    return text if isinstance(text, Text) else Text(visible(text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table whose first column is a name and whose others are numbers. In a pipe it may be 200 columns wide."""
    heading = None if title is None else literal(title)
    table = Table(box=box.SIMPLE, title=heading, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(literal(column), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(literal, row))
    SafeConsole(width=None if screen.is_terminal else 200).print(table)


SHOWN_WITH_SCORES = ("f1_average", "count_of", "perplexity_unit")
"""Details that are printed beside the numbers already."""


def explain(details: dict[str, Any], *, report: bool = False) -> list[str]:
    """Lines that explain the numbers; fewer with a `report`, which has its own on baselines and calibration."""
    from weft.metrics import describe_vocabulary
    from weft.run.conclusions import describe_baseline

    lines = [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in details.items()
        if isinstance(value, str) and name not in SHOWN_WITH_SCORES
    ]
    if not report:
        lines += [describe_baseline(name, scores) for name, scores in details.get("baselines", {}).items()]
    if vocabulary := describe_vocabulary(details):
        lines.append(f"perplexity per {details['perplexity_unit']}: {vocabulary}")
    if "majority_accuracy" in details and not report:
        lines.append(f"always predicting the most frequent label: accuracy {100 * details['majority_accuracy']:.2f}%")
    if details.get("unseen"):
        named = ", ".join(details.get("unseen_labels", {}))
        shown = f" ({named})" if named else ""
        lines.append(f"labels that training never saw, all counted as wrong: {details['unseen']:,}{shown}")
    if "calibration_error" in details and not report:
        lines.append(f"calibration error of the probabilities: {100 * details['calibration_error']:.1f}%")
    return lines
