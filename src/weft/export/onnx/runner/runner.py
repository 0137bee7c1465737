"""Runs a folder of `weft export --to onnx` with onnxruntime, numpy and tokenizers, without torch.

runner = Runner("folder")
runner.predict("the small cat")["text"]
runner.predict(["one", "two"], beam=5, n_best=2)
for piece in runner.stream("once upon"):
    print(piece, end="")
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from weft import limits
from weft.documents import NewerFormat
from weft.errors import ConfigError, DataError, RunError, WeftError
from weft.export.onnx.runner.answering import Answering
from weft.export.onnx.runner.folder import AGAIN, MODEL, ExportedFiles
from weft.export.onnx.runner.gaps import Gaps
from weft.export.onnx.runner.graphs import Array, Graphs, providers_of
from weft.export.onnx.runner.labels import Labels, Numbers
from weft.export.onnx.runner.series import Forecasts
from weft.export.onnx.runner.tags import Tags
from weft.export.onnx.runner.texts import PER_INPUT
from weft.export.onnx.runner.vectors import WordVectors
from weft.export.onnx.runner.writers import ContinuesTexts, Describes, Translates
from weft.text import StoredRules, Tokenizer

TASKS: Final[Mapping[str, type[Answering]]] = {
    "lm": ContinuesTexts,
    "translate": Translates,
    "caption": Describes,
    "classify": Labels,
    "regress": Numbers,
    "tag": Tags,
    "mask": Gaps,
    "embed": WordVectors,
    "forecast": Forecasts,
}

FORMAT_VERSION: Final = 1
"""The version of model.json."""

LABELS: Final = "labels.json"
CONSTANT: Final = "constant_{}.npy"
UNFIT: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors that reading a folder raises whose parts are not those that weft wrote together."""

Device = Literal["auto", "cpu", "cuda"]


class Runner:
    """A model in an exported folder. Every file is checked against manifest.json before it is used.

    threads: those of onnxruntime for one operation, by default one for each core. device: "cuda" needs
    onnxruntime-gpu; "auto" takes a GPU if onnxruntime has one.
    """

    def __init__(self, folder: str | Path, *, threads: int = 0, device: Device = "cpu") -> None:
        if type(threads) is not int or not 0 <= threads <= limits.THREADS:
            raise ConfigError("is no number of threads", where=f"threads = {threads!r:.40}", cure="0 is one per core")
        if device not in ("auto", "cpu", "cuda"):
            raise ConfigError("is no device", where=f"device = {device!r:.40}", cure="auto, cpu or cuda")
        providers = providers_of(device)
        files = ExportedFiles(folder)
        self.folder, where = files.folder, str(files.folder / MODEL)
        facts = files.read_json(MODEL)
        try:
            if type(facts["format_version"]) is not int or facts["format_version"] > FORMAT_VERSION:
                raise NewerFormat("was written by a newer weft", where=where, cure="upgrade weft")
            self.task: str = facts["task"]
            graphs = Graphs(files, facts, threads=threads, providers=providers)
            constants = {name: _read_array(files, CONSTANT.format(name)) for name in facts["constants"]}
            labels = files.read_json(LABELS) if files.has(LABELS) else []
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise ValueError(f"{LABELS} is not a list of labels")
            tokenizers = {role: _read_tokenizer(files, about) for role, about in facts["tokenizers"].items()}
            self._answering = TASKS[self.task](graphs, facts, tokenizers, labels, constants)
        except UNFIT as error:
            raise RunError(f"is damaged: {describe(error)}", where=where, cure=AGAIN) from None

    def predict(self, inputs: Any, **options: Any) -> Any:
        """The answer to one input, or a list of answers, each as `weft predict --json` prints it.

        A text of nothing but blanks has no answer: None. A language model continues it, as `run.predict` does. Other
        texts are read as they are, so that a line end is a part of them.

        Options of a search are those of `[decode]` but groups and stop_at, and prefix, language, forbid_unknown and
        attention. A forecast takes a file, a table or a list of numbers, and returns a list.
        """
        with self._in_a_line():
            if self.task == "forecast":
                return self._answering.predict(inputs, options)
            if self._answering.is_one_input(inputs):
                return self._predict([inputs], options)[0]
            if not isinstance(inputs, Iterable):
                raise DataError(f"{inputs!r:.40} is no input", where="inputs", cure="give a text or a list of texts")
            return self._predict(list(inputs), options)

    def _predict(self, inputs: list[Any], options: dict[str, Any]) -> list[dict[str, Any] | None]:
        """The answers to some inputs; None for those without a text."""
        found: list[dict[str, Any] | None] = [None] * len(inputs)
        full = [number for number, one in enumerate(inputs) if not self._answering.is_blank(one)]
        for name in set(PER_INPUT) & options.keys():
            given = options[name]
            if isinstance(given, list | tuple) and len(given) == len(inputs):
                options |= {name: [given[number] for number in full]}
        answers = self._answering.predict([inputs[number] for number in full], options) if full else []
        for number, answer in zip(full, answers, strict=True):
            found[number] = answer
        return found

    def stream(self, source: Any, **options: Any) -> Iterator[str]:
        """The text of `predict(source)` in pieces, each as soon as no later step can change it."""
        with self._in_a_line():
            if not self._answering.is_blank(source):
                yield from self._answering.stream(source, options)

    def score(self, inputs: Iterable[Any]) -> list[dict[str, Any]]:
        """The log-probability and the rank of each token of texts, or of the targets of (source, target)."""
        with self._in_a_line():
            return self._answering.score(list(inputs))

    def embed(self, texts: Iterable[Any]) -> Array:
        """A vector for each text (N, D): the mean of the states of its tokens, where the folder has their graph."""
        if isinstance(texts, str):
            raise DataError("a single text", where="texts", cure="give a list of texts")
        with self._in_a_line():
            return self._answering.embed(list(texts))

    @contextmanager
    def _in_a_line(self) -> Iterator[None]:
        """Raise what Python or numpy raise as a RunError: the parts of a changed folder do not fit together."""
        try:
            yield
        except WeftError:  # of which some are ValueErrors
            raise
        except UNFIT as error:
            what, where = f"an answer cannot be computed: {describe(error)}", str(self.folder)
            raise RunError(what, where=where, cure=f"check the input; if it is right, {AGAIN}") from error

    def __repr__(self) -> str:
        return f"Runner({str(self.folder)!r}, task={self.task!r})"


def describe(error: BaseException) -> str:
    """An error of Python in printable letters."""
    return f"{ascii(' '.join(repr(error).split()))[1:-1]:.100}"


def _read_array(files: ExportedFiles, name: str) -> Array:
    """An array of numbers; never an object, which could run code."""
    with io.BytesIO(files.read(name)) as content:
        try:
            found: Array = np.load(content, allow_pickle=False)
        except Exception:  # of a damaged header numpy raises what Python's parser does
            raise ValueError(f"{name} is no array") from None
    if found.dtype.kind not in "fiub":
        raise ValueError(f"{name} has no numbers")
    return found


def _read_tokenizer(files: ExportedFiles, about: Mapping[str, Any]) -> Tokenizer:
    """A tokenizer whose file does what the facts say, as that of a run is checked."""
    rules = StoredRules.of_tree(about["text"])
    name = about["file"]
    content = files.read(name, most=limits.TOKENIZER_FILE_BYTES)
    return Tokenizer.parse(content, rules, where=str(files.folder / name))
