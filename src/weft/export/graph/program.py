"""The program of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.export.graph.graph import Program
from weft.export.graph.lower_model import program_of_model
from weft.tasks.caption import Caption

if TYPE_CHECKING:
    from weft.run import Run


def program_of(run: Run) -> Program:
    """The graphs of a run's model; a ConfigError names what has none."""
    picture = None
    if isinstance(run.task, Caption) and run.task.features is None:
        picture = run.task.data.size, run.task.channels
    return program_of_model(run.model, picture=picture)
