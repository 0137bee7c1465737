"""`weft export RUN --to c`: the folder with model.c, model.h, main.c and weights.bin, compiled and compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.errors import ConfigError
from weft.export.c.constants import Constants
from weft.export.c.model_source import Sources, write_sources
from weft.export.c.source import read
from weft.export.c.tasks import TASKS, options_source
from weft.export.graph.lower_model import program_of_model
from weft.run import Run


def sources_of(run: Run, *, int8: bool = False) -> Sources:
    """The files of a run."""
    task = run.config.task
    if task not in TASKS:
        raise ConfigError("is not written in C", where=f'task = "{task}"', cure=f"tasks are {', '.join(TASKS)}")
    program, constants = program_of_model(run.model), Constants(int8=int8)
    plan = TASKS[task](run, program, constants)
    plan.sources = [options_source(run), *plan.sources]
    return write_sources(plan, program, constants)
