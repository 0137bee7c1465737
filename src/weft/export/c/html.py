"""`weft export RUN --to html`: one file with the C of a model as WebAssembly, its weights and a page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.disk import atomic_write
from weft.errors import ConfigError, Fault
from weft.export.c.compare import CAgreement
from weft.export.c.export import check_quantization_c, check_quantizes, fill_folder
from weft.export.c.plan_reading import features_of
from weft.export.c.source import read
from weft.run import Run

SYSROOTS: Final = (Path("/usr/include/wasm32-wasi"), Path("/usr/share/wasi-sysroot/include"))
PACKAGES: Final = "apt install clang lld wasi-libc libclang-rt-dev-wasm32"
EXPORTS: Final = ("page_memory", "page_open", "page_answer", "page_error", "__heap_base")

WORDS: Final[dict[str, tuple[str, str, str, str]]] = {
    "classify": ("classify", "Text", "Classify", "It finds the label of a text."),
    "regress": ("plain", "Text", "Measure", "It finds a number for a text."),
    "tag": ("tag", "Sentence", "Tag", "It tags the words of a sentence."),
    "translate": ("write", "Text", "Translate", "It translates a sentence."),
    "lm": ("write", "Beginning", "Continue", "It continues a text."),
    "mask": ("plain", "Text with <mask>", "Fill", "It fills the gaps of a text."),
    "forecast": ("series", "Series: [112, 118, 132]", "Forecast", "It forecasts the next steps of a series."),
    "embed": ("near", "Word", "Find", "It finds the words nearest to a word."),
    "caption": ("write", "Features", "Describe", "It describes feature vectors."),
}
"""How a page shows the answers of a task, and what it says."""

STACK_BYTES: Final = 1 << 20


class ExportedHtml(NamedTuple):
    """The file, its size in bytes, how the C agrees with the run, and settings that it lacks."""

    path: Path
    bytes: int
    agreement: CAgreement
    quantized: CAgreement | None = None
    left_out: tuple[str, ...] = ()
    loss: str | None = None
    """The cost of int8 in score, where it was measured."""
    unmeasured: str | None = None
    """Why the cost of int8 in score was not measured."""


def export_html(
    run: Run, *, out: str | Path, quantization: str | None = None, data: str | Path | None = None
) -> ExportedHtml:
    """Write the page of a run; its C is compiled here too and compared with the run before, and what int8 costs in
    score is measured on `data`, by default on the validation data of the run."""
    if quantization is not None:
        check_quantization_c(quantization)
        check_quantizes(run, quantization)
    path = Path(out)
    if path.is_dir():
        path = path / "index.html"
    if path.exists():
        raise ConfigError("exists", where=str(path), cure="choose a new file, or remove it")
    if run.config.task == "caption" and features_of(run) is None:
        raise ConfigError("of pictures has no page", where='task = "caption"', cure="use --to c or --to onnx")
    find_tools()
    with tempfile.TemporaryDirectory(prefix="weft-html-") as name:
        folder = Path(name)
        made = fill_folder(run, folder, quantization, data, readme=False)
        (folder / "page.c").write_text(read("page.c"), encoding="utf-8")
        page = make_page(run, compile_wasm(folder), (folder / "weights.bin").read_bytes())
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, page.encode("utf-8"))
    return ExportedHtml(path, len(page.encode("utf-8")), *made[1:])


def find_tools() -> str:
    """The path of clang; an error where what makes WebAssembly is missing."""
    clang = shutil.which("clang")
    missing = [name for name in ("clang", "wasm-ld") if shutil.which(name) is None]
    missing += [] if any(path.is_dir() for path in SYSROOTS) else ["wasi-libc"]
    if missing or clang is None:
        raise ConfigError(f"needs {', '.join(missing)}", where="--to html", cure=PACKAGES)
    return clang


def compile_wasm(folder: Path) -> bytes:
    """model.c and page.c as WebAssembly that imports nothing but calls to write files, which it never makes."""
    command = [find_tools(), "--target=wasm32-wasi", "-mexec-model=reactor", "-std=c99", "-O2", "-msimd128", "-Wall"]
    command += [
        f"-Wl,-z,stack-size={STACK_BYTES},--stack-first"
    ]  # an overflow ends the program and writes nothing over
    command += [f"-Wl,--export={name}" for name in EXPORTS]
    command += ["-Wl,--strip-all", "-o", "model.wasm", "model.c", "page.c", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise Fault(f"clang makes no WebAssembly: {first} ({PACKAGES})")
    return (folder / "model.wasm").read_bytes()


def make_page(run: Run, program: bytes, weights: bytes) -> str:
    """The page; its policy lets nothing run but this script, and nothing be loaded."""
    show, label, verb, does = WORDS[run.config.task]
    script = read("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = read("page.css")
    style_digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' 'wasm-unsafe-eval'; style-src 'sha256-{style_digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    decode = run.config.decode
    facts: dict[str, Any] = {
        "show": show,
        "n_best": 1 if decode.sample or not run.task.writes else min(3, decode.beam),
        "sample": decode.sample,
        "pair": getattr(run.config.data, "pair", None) is not None,
        "languages": list(getattr(getattr(run.task, "languages", None), "names", ())),
    }
    if (features := features_of(run)) is not None:
        label = f"Feature vectors: [{[0] * len(features.mean)}]"
    parts = {
        "policy": policy,
        "title": html.escape(str(run.config.name or f"weft {run.config.task}")),
        "about": f"A model of weft. {does}",
        "label": html.escape(label),
        "verb": verb,
        "style": style,
        "program": base64.b64encode(program).decode(),
        "weights": base64.b64encode(weights).decode(),
        "facts": json.dumps(facts).replace("<", "\\u003c"),
        "script": script,
    }
    page = read("page.html")
    pieces = page.split("{")
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in (piece.partition("}") for piece in pieces[1:]))
