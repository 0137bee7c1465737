"""Where words go: data to standard output, everything about it to standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

errors = Console(stderr=True, highlight=False)
screen = Console(highlight=False)


def say(text: str) -> None:
    screen.print(text, soft_wrap=True)


def note(text: str) -> None:
    errors.print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    from weft.documents import to_json

    print(to_json(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str | None = None) -> None:
    """The first column is a name, the others are numbers. Never wider or narrower than its content, also in a pipe.

    A name may be a `Text`, which is shown as it stands.
    """
    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    wide = Console(highlight=False, width=None if screen.is_terminal else 200)
    wide.print(table)


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
        named = ", ".join(map(escape, details.get("unseen_labels", {})))
        shown = f" ({named})" if named else ""
        lines.append(f"labels that training never saw, all counted as wrong: {details['unseen']:,}{shown}")
    if "calibration_error" in details and not report:
        lines.append(f"calibration error of the probabilities: {100 * details['calibration_error']:.1f}%")
    return lines
