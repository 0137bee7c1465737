"""`weft export RUN --to c`: the folder with model.c, model.h, main.c and weights.bin, compiled and compared."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.decoding import DecodeConfig
from weft.errors import ConfigError
from weft.export.c.compare import OPTIONS, CAgreement, compare_c, compile_folder
from weft.export.c.constants import Constants
from weft.export.c.counted import COUNTED, counted_sources
from weft.export.c.loss import measure_c
from weft.export.c.model_source import Sources, write_sources
from weft.export.c.plan_reading import options_source
from weft.export.c.readme import write_readme
from weft.export.c.source import read
from weft.export.c.tasks import TASKS
from weft.export.graph.program import program_of
from weft.export.loss import ScoreLoss, Unmeasured, check_measured, read_examples
from weft.run import Run

INT8: Final = "int8"

LACKING: Final = ("groups", "stop_at", "copy_unknown")
"""Settings of the search that the C does not have."""


class ExportedC(NamedTuple):
    """The folder, how near the answers of its program are to the run's, also in int8, and settings that it lacks."""

    folder: Path
    agreement: CAgreement
    quantized: CAgreement | None = None
    left_out: tuple[str, ...] = ()
    loss: str | None = None
    """The cost of int8 in score, where it was measured."""
    unmeasured: str | None = None
    """Why the cost of int8 in score was not measured."""


def check_quantization_c(quantization: str) -> None:
    """Raise for a type of weights that the C does not have."""
    if quantization not in ("float32", INT8):
        raise ConfigError(f'"{quantization}" is no type of weights in C', where="--quantization", cure="int8, float32")


def check_quantizes(run: Run, quantization: str | None) -> None:
    """Raise for int8 of a run that has no matrices."""
    if quantization == INT8 and type(run.model) in COUNTED:
        what = "acts on networks, and this model is one of counts"
        raise ConfigError(what, where="--quantization int8", cure="leave it out")


def sources_of(run: Run, *, int8: bool = False) -> Sources:
    """The files of a run."""
    task = run.config.task
    refuse(run)
    if type(run.model) in COUNTED:
        return counted_sources(run)
    program, constants = program_of(run), Constants(int8=int8)
    plan = TASKS[task](run, program, constants)
    plan.sources = [options_source(run), *plan.sources]
    return write_sources(plan, program, constants)


def refuse(run: Run) -> None:
    """Raise for a run that cannot be written in C."""
    task = run.config.task
    if task not in TASKS:
        names = ", ".join(TASKS)
        raise ConfigError("is not written in C", where=f'task = "{task}"', cure=f"runs of {names} are; use --to onnx")


def fill_folder(
    run: Run, folder: Path, quantization: str | None, data: str | Path | None = None, *, readme: bool = True
) -> ExportedC:
    """Write the files of a run into an empty folder, compile them and compare their answers with the run's.

    In int8 the model computes another function: it is compared in float32 first, and then both are measured on `data`,
    or on the validation data of the run.
    """
    check_quantizes(run, quantization)
    check_measured(data, quantization)
    if data is not None and run.config.task == "embed":
        what = "the program of word vectors names words, and measures no pair"
        raise ConfigError(what, where=f"--data {data}", cure="--to onnx measures int8 on pairs")
    examples, unmeasured = (None, None) if quantization != INT8 else _examples(run, data)
    agreement, before = _compared(run, folder, examples, int8=False)
    quantized, loss = None, None
    if quantization == INT8:
        quantized, after = _compared(run, folder, examples, int8=True)
        if before and after:
            loss = ScoreLoss(*before[:2], *after[1:]).describe()
        elif examples is not None:
            unmeasured = "the program refuses all examples"
    lacking = left_out(run.config.decode) if run.task.writes else ()
    if readme:
        write_readme(run, folder, agreement, quantized, loss)
    return ExportedC(folder, agreement, quantized, lacking, loss, unmeasured)


def _examples(run: Run, data: str | Path | None) -> tuple[list[Any] | None, str | None]:
    """Return the examples on which int8 is measured, or why there are none."""
    if run.config.task == "embed":
        return None, "the program of word vectors names words, and measures no pair"
    try:
        return read_examples(run, data), None
    except Unmeasured as error:
        return None, error.what


def _compared(
    run: Run, folder: Path, examples: Sequence[Any] | None, *, int8: bool
) -> tuple[CAgreement, tuple[str, float, int] | None]:
    """Return how the program agrees with the run, and its metric on the examples."""
    write_files(sources_of(run, int8=int8), folder)
    program = compile_folder(folder, options=OPTIONS)
    try:
        agreement = compare_c(run, program, exact=not int8)
        with tempfile.TemporaryDirectory(prefix="weft-c-") as pictures:
            return agreement, None if examples is None else measure_c(run, program, examples, Path(pictures))
    finally:
        program.unlink()


def write_files(sources: Sources, folder: Path) -> None:
    """Write model.c, model.h, main.c and weights.bin."""
    (folder / "model.c").write_text(sources.model_c, encoding="utf-8")
    (folder / "model.h").write_text(sources.model_h, encoding="utf-8")
    (folder / "main.c").write_text(read("main.c"), encoding="utf-8")
    (folder / "weights.bin").write_bytes(sources.weights)


def left_out(decode: DecodeConfig) -> tuple[str, ...]:
    """The settings of the search that are not the default and have no counterpart in C."""
    plain = DecodeConfig()
    names = [name for name in LACKING if getattr(decode, name) != getattr(plain, name)]
    return tuple(f"{name} = {getattr(decode, name)}" for name in names)
