"""Export of a run to a folder of ONNX graphs that the `Runner` answers with; it is compared with the run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.errors import ConfigError, did_you_mean
from weft.export.graph import Program, host_facts, program_of
from weft.export.loss import ScoreLoss, Unmeasured, check_measured, read_examples
from weft.extras import EXTRAS
from weft.run import Run
from weft.run.folder.files import tokenizer_file, write_json, write_text
from weft.tasks.forecast_encoding import SeriesTask
from weft.text import FramedText
from weft.version import __version__

QUANTIZATIONS: Final = ("float32", "int8")
LEFT_OUT: Final = {"groups": 1, "stop_at": []}
"""Settings of the search that the runner does not have, and what they are when they do nothing."""


class OnnxExport(NamedTuple):
    """How near the folder is to the run: the largest difference of a number, shares of equal texts by greedy and beam
    search or None; in 8 bits the score of the run and of the folder, with the metric and what it was measured on, or
    why it was not measured."""

    difference: float
    greedy: float | None
    beam: float | None
    loss: ScoreLoss | None
    left_out: tuple[str, ...]
    unmeasured: str | None


def check_onnx() -> None:
    """Raise unless what writes and runs the graphs is installed."""
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise ConfigError(f"needs {package}", where="--to onnx", cure=EXTRAS["onnx"].install)


def check_quantization(quantization: str | None) -> None:
    if quantization not in (None, *QUANTIZATIONS):
        cure = did_you_mean(str(quantization), QUANTIZATIONS)
        raise ConfigError(f'"{quantization}" is not one of ONNX', where="--quantization", cure=cure)


def export_onnx(
    run: Run, folder: Path, *, quantization: str | None = None, data: str | Path | None = None
) -> OnnxExport:
    """Fill an empty folder. In 8 bits it is compared in 32 bits first; then the loss in score is measured on `data`,
    or on the validation data of the run."""
    check_onnx()
    check_quantization(quantization)
    check_measured(data, quantization)
    from weft.export.onnx.agree import compare
    from weft.export.onnx.card import write_card
    from weft.export.onnx.files import write_manifest

    program = program_of(run)
    write_folder(run, program, folder, quantized=False)
    agreement = compare(run, folder)
    loss, unmeasured = None, None
    if quantization == "int8":
        from weft.export.onnx.loss import measure

        try:
            examples: list[Any] | None = read_examples(run, data)
        except Unmeasured as error:
            examples, unmeasured = None, error.what
        before = measure(run, folder, examples)
        for path in folder.iterdir():
            path.unlink()
        write_folder(run, program, folder, quantized=True)
        if examples is not None and before is not None:
            name, value = before
            found = measure(run, folder, examples)
            assert found is not None
            loss = ScoreLoss(name, value, found[1], len(examples))
    left_out = tuple(
        f"{name} = {getattr(run.config.decode, name)}"
        for name, usual in LEFT_OUT.items()
        if run.task.writes and getattr(run.config.decode, name) != usual
    )
    found_all = OnnxExport(*agreement, loss, left_out, unmeasured)
    write_card(run, folder, found_all, quantized=quantization == "int8")
    write_manifest(folder)
    return found_all


def write_folder(run: Run, program: Program, folder: Path, *, quantized: bool) -> None:
    """Write all files but README.md, with a manifest."""
    from weft.export.onnx.files import describe, write_constants, write_graphs, write_manifest

    graphs = write_graphs(program, folder, quantized=quantized)
    constants = write_constants(program, folder)
    for role, tokenizer in run.task.codec.tokenizers.items():
        write_text(folder / tokenizer_file(role), tokenizer.to_json())
    if run.task.codec.labels:
        write_json(folder / "labels.json", list(run.task.codec.labels))
    facts = _facts(run) | {"graphs": graphs, "constants": constants} | describe(program)
    write_json(folder / "model.json", facts)
    write_manifest(folder)


def _facts(run: Run) -> dict[str, Any]:
    """All that the runner reads besides the graphs: `host_facts`, the settings of the tokenizers, the statistics of
    numbers, and the columns of inputs."""
    from weft.export.onnx.runner.runner import FORMAT_VERSION

    codec, data = run.task.codec, run.config.data
    facts = {"format_version": FORMAT_VERSION, "weft": __version__, **host_facts(run)}
    for role, tokenizer in codec.tokenizers.items():
        settings = tokenizer.config.model_dump(mode="json")
        facts["tokenizers"][role]["text"] = {
            name: settings[name] for name in FramedText.model_fields if name in settings
        }
    names = ("text", "pair", "features", "source", "language")
    columns = {name: getattr(data, name, None) for name in names}
    if isinstance(run.task, SeriesTask):
        columns = dict(run.task.data.layout._asdict())
    longest = getattr(run.model, "longest", None)
    statistics = {name: one.tree() for name, one in codec.statistics.items()}
    return facts | {"columns": columns, "longest": longest, "statistics": statistics}
