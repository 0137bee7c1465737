"""The README.md of an exported folder: what it is, how near it is to the run, and code that uses it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.run import Run
from weft.run.card_header import pipeline
from weft.run.folder.files import CARD, write_text
from weft.version import __version__

if TYPE_CHECKING:
    from weft.export.onnx.folder import OnnxExport

CALLS: Final = {
    "lm": 'runner.predict("…", max_length=40)["text"]',
    "translate": 'runner.predict("…", beam=4)["text"]',
    "caption": 'runner.predict("picture.jpg")["text"]',
    "classify": 'runner.predict("…")',
    "regress": 'runner.predict("…")["number"]',
    "tag": 'runner.predict("…")["tags"]',
    "mask": 'runner.predict("… <mask> …")["filled"]',
    "embed": 'runner.predict("…")["neighbours"]',
    "forecast": 'runner.predict("series.csv")',
}


def facts_of(found: OnnxExport, *, quantized: bool) -> list[str]:
    """Sentences about what was compared."""
    said = f"numbers within {found.difference:.1e}"
    if found.greedy is not None and found.beam is not None:
        said += f", equal texts: {100 * found.greedy:.0f}% greedy, {100 * found.beam:.0f}% by beam search"
    lines = [f"before quantization {said}" if quantized else said]
    if found.loss is not None:
        lines.append(found.loss.describe())
    elif quantized:
        lines.append(f"the loss of int8 was not measured: {found.unmeasured}")
    return lines


def write_card(run: Run, folder: Path, found: OnnxExport, *, quantized: bool) -> None:
    """Write README.md, with the header that model hubs read."""
    head = ["---", "library_name: onnx", *pipeline(run.config.task), "---", ""]
    lines = [f"# {run.config.name or f'weft {run.config.task}'}", ""]
    lines += [f"Trained and exported by weft {__version__} as ONNX graphs{' in int8' if quantized else ''}."]
    lines += ["Compared with the original on inputs made from the vocabulary:", ""]
    lines += [f"- {fact}" for fact in facts_of(found, quantized=quantized)]
    lines += [f"- left out, because the runner has no such setting: {one}" for one in found.left_out]
    lines += ["", "It runs without torch, with `onnxruntime`, `numpy` and `tokenizers`, where weft may be installed by"]
    lines += ["`pip install --no-deps`:", "", "```python"]
    lines += ["from weft.export.onnx import Runner", "", 'runner = Runner("PATH_TO_THIS_FOLDER")']
    lines += [f"print({CALLS[run.config.task]})", "```", ""]
    lines += [
        "`*.onnx` are the graphs for any runtime: rows are the first axis, and each padded axis has its lengths as"
    ]
    lines += [
        "an input. `model.json` has what else a program needs that runs them, `manifest.json` the hash of each file."
    ]
    write_text(folder / CARD, "\n".join([*head, *lines, ""]))
