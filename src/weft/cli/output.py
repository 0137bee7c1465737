"""Where words go: data to standard output, everything about it to standard error.

Whatever a terminal would act on is made visible: in messages and tables always, in data where it goes to a terminal.
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
    """A line about the data, on standard output: markup, and a value for each `{}` of it."""
    screen.print(styled(template, *values), soft_wrap=True)


def note(template: str, *values: object) -> None:
    """A line for whoever watches, on standard error: markup, and a value for each `{}` of it."""
    errors.print(styled(template, *values), soft_wrap=True)


def complain(what: object) -> None:
    """The one line of an error."""
    note("[bold red]error[/] {}", what)


def write(text: str, *, flush: bool = False) -> None:
    """Data: as it is into a file or a pipe, with nothing that acts on a terminal where it goes to one."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    if flush:
        sys.stdout.flush()


def show_json(value: Any) -> str:
    """One line of JSON, in which a terminal finds nothing to act on."""
    text = to_json(value)
    return visible_json(text) if sys.stdout.isatty() else text


def print_json(value: Any) -> None:
    write(f"{show_json(value)}\n")


def literal(text: str | Text) -> Text:
    """What a table shows: the text as it stands, brackets and control characters too."""
    return text if isinstance(text, Text) else Text(visible(text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """The first column is a name, the others are numbers. Never wider or narrower than its content, also in a pipe."""
    heading = None if title is None else literal(title)
    table = Table(box=box.SIMPLE, title=heading, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(literal(column), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(literal, row))
    SafeConsole(width=None if screen.is_terminal else 200).print(table)


IN_OTHER_WORDS = ("f1_average", "count_of", "perplexity_unit")
"""Details that stand beside the numbers already."""


def explain(details: dict[str, Any], *, report: bool = False) -> list[str]:
    """What a reader of the numbers should know; less where a `report` of the training says more."""
    from weft.metrics import describe_vocabulary

    lines = [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in details.items()
        if isinstance(value, str) and name not in IN_OTHER_WORDS
    ]
    if vocabulary := describe_vocabulary(details):
        lines.append(f"perplexity per {details['perplexity_unit']}: {vocabulary}")
    if "majority_accuracy" in details and not report:
        lines.append(f"always giving the most frequent label: accuracy {100 * details['majority_accuracy']:.2f}%")
    if details.get("unseen"):
        named = ", ".join(details.get("unseen_labels", {}))
        shown = f" ({named})" if named else ""
        lines.append(f"labels that training never saw, all counted as wrong: {details['unseen']:,}{shown}")
    if "calibration_error" in details and not report:
        lines.append(f"calibration error of the probabilities: {100 * details['calibration_error']:.1f}%")
    return lines
