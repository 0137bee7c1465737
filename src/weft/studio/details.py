"""The data that the page shows of one run beside its views: settings, report, card, inputs to try."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.disk import read_regular
from weft.serve.inputs import input_kind
from weft.studio.discovery import CARD
from weft.studio.inputs import example_inputs, examples_hint
from weft.studio.views import views_of

if TYPE_CHECKING:
    from weft.run import Run

MAX_CARD_BYTES: Final = 1 << 20


def describe(run: Run, folders: list[Path]) -> dict[str, Any]:
    """Return the details of a run; `folders` are those that its data may be read from."""
    examples = example_inputs(run, folders)
    languages = getattr(run.task, "languages", None)
    return {
        "task": run.config.task,
        "config": run.config.tree(),
        "report": run.report,
        "card": _card(run.folder),
        "examples": examples,
        "examples_hint": "" if examples else examples_hint(run),
        "languages": list(getattr(languages, "names", ()) or ()) if languages else [],
        "inputs": input_kind(run),
        "writes": run.task.writes,
        "scores_texts": run.task.scores_texts,
        "views": views_of(run),
        "labels": list(run.task.codec.labels)[:1000],
    }


def _card(folder: Path) -> str | None:
    """Return the model card as plain text; the page shows it as text, never as markup."""
    try:
        return read_regular(folder / CARD, most=MAX_CARD_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
