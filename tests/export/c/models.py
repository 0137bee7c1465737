"""Small runs with random weights, and their exported C as a library that answers lines."""

from __future__ import annotations

import ctypes
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.export.conftest import build, in_float64

from weft.export.c.export import sources_of, write_files
from weft.export.c.samples import Sample
from weft.nn.native.compiler import find_compiler
from weft.run import Run

TEXT = "the a cat dog sleeps runs fast slow blue tree, house! don't café über 12 3.14 and or not"
WORDS = TEXT.split()
RNN_ = {"kind": "rnn", "hidden": 12, "embedding": 10}
TRANSFORMER = {"kind": "transformer", "width": 16, "heads": 2, "layers": 2, "max_positions": 128}
WARNINGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror")


class Options(ctypes.Structure):
    """weft_options of model.h."""

    _fields_ = [
        ("probabilities", ctypes.c_int),
        ("beam", ctypes.c_int),
        ("n_best", ctypes.c_int),
        ("max_length", ctypes.c_long),
        ("min_length", ctypes.c_long),
        ("length_penalty", ctypes.c_float),
        ("by_bound", ctypes.c_int),
        ("finished", ctypes.c_int),
        ("repetition_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("sample", ctypes.c_int),
        ("temperature", ctypes.c_float),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("top_k", ctypes.c_long),
        ("seed", ctypes.c_uint64),
        ("words", ctypes.c_int),
        ("language", ctypes.c_int),
    ]


class Limits(ctypes.Structure):
    """weft_limits of model.h."""

    _fields_ = [
        ("line_bytes", ctypes.c_size_t),
        ("tokens", ctypes.c_long),
        ("new_tokens", ctypes.c_long),
        ("beam", ctypes.c_int),
    ]


class CModel:
    """An exported model, opened."""

    def __init__(self, run: Run, folder: Path, *, int8: bool = False) -> None:
        write_files(sources_of(run, int8=int8), folder)
        command = [*find_compiler(), *WARNINGS, "-shared", "-fPIC", "-o", "model.so", "model.c", "-lm"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(folder / "model.so"))
        self.library.weft_answer.restype = ctypes.c_long
        self.library.weft_error.restype = ctypes.c_char_p
        data = (folder / "weights.bin").read_bytes()
        self.weights = np.frombuffer(data, np.uint8).copy()
        self.limits, self.options, needed = Limits(), Options(), ctypes.c_size_t()
        self.library.weft_default_limits(ctypes.byref(self.limits))
        self.library.weft_default_options(ctypes.byref(self.options))
        self.limits.line_bytes, self.limits.tokens = 4096, min(self.limits.tokens, 256)
        self.limits.beam = max(self.limits.beam, 4)
        given = (self.weights.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(data)))
        assert self.library.weft_memory(*given, ctypes.byref(self.limits), ctypes.byref(needed)) == 0
        self.memory = np.full(needed.value, 255, np.uint8)
        self.model = ctypes.c_void_p()
        memory = (self.memory.ctypes.data_as(ctypes.c_void_p), needed, ctypes.byref(self.limits))
        assert self.library.weft_open(ctypes.byref(self.model), *given, *memory) == 0

    def content(self, line: str) -> bytes:
        """The bytes that the model reads for a line: its own, or those of the file that it names."""
        return Path(line).read_bytes() if self.library.weft_reads_files() else line.encode()

    def answer(self, line: str, **options: Any) -> str:
        for name, value in options.items():
            setattr(self.options, name, value)
        text, room = self.content(line), ctypes.create_string_buffer(1 << 16)
        size = self.library.weft_answer(
            self.model, ctypes.byref(self.options), text, ctypes.c_size_t(len(text)), room, ctypes.c_size_t(1 << 16)
        )
        assert size >= 0, self.library.weft_error(int(size))
        return room.raw[:size].decode("utf-8")


def sentence(draw: random.Random, words: int | None = None) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(words or draw.randint(1, 9)))


def lines(count: int) -> list[str]:
    draw = random.Random(1)
    known = [sentence(draw, 1 + number % 25) for number in range(count - 3)]
    return [*known, "words nobody knows (zürich)", "x", '"Don\'t", she said.']


def make_run(
    task: str, folder: Path, model: dict[str, Any], *, text: Any = None, decode: Any = None, many: bool = False
) -> Run:
    """A run of a task on random sentences."""
    draw, path = random.Random(0), folder / "data.tsv"
    rows = [sentence(draw) for _ in range(60)]
    if task == "tag":
        label = lambda: draw.choice(["O", "B-PER", "I-PER", "B-LOC"])  # noqa: E731
        path = folder / "data.txt"
        path.write_text("\n\n".join("\n".join(f"{word} {label()}" for word in row.split()) for row in rows) + "\n")
    elif task == "lm":
        path = folder / "data.txt"
        path.write_text("\n".join(rows) + "\n")
    elif task == "translate":
        path.write_text("".join(f"{row}\t{sentence(draw)}\n" for row in rows))
    elif task == "regress":
        path.write_text("".join(f"{row}\t{draw.random() * 9:.3f}\n" for row in rows))
    else:
        path.write_text("".join(f"{row}\t{draw.choice(['good', 'bad', 'so so'])}\n" for row in rows))
    sections: dict[str, Any] = {"model": model}
    sections |= {"text": text} if text else {}
    sections |= {"decode": decode} if decode else {}
    return build(task, str(path), folder, **sections)


SCORE: Final = re.compile(r"\t-?\d+(\.\d+)?(e-?\d+)?(?=\t|$)")
"""The score behind a text."""


NEAR: Final = 1e-5
"""The most by which the scores of an answer may differ from those of float64, as a share of its largest one."""


def texts_in(line: str) -> str:
    """The texts of a line of texts and scores. A text may be a number, or, where it has tabs, several fields."""
    fields = line.split("\t")
    in_pairs = len(fields) % 2 == 0 and all(SCORE.fullmatch(f"\t{field}") for field in fields[1::2])
    return "\t".join(fields[::2]) if in_pairs else SCORE.sub("", line)


def right_in_float64(run: Run, sample: Sample, answer: str, options: dict[str, Any]) -> bool:
    """Whether an answer is that of the run in float64.

    Rounding decides which of two nearly tied hypotheses a beam search drops, and scores are differences of logits,
    which may be much larger: then the run in float32 may be the wrong one.
    """
    from weft.export.c.compare import precise

    pairs = [line.split("\t") for line in (precise(in_float64(run).predict(sample.given, **options)), answer)]
    if pairs[0][::2] != pairs[1][::2]:
        return False
    own, other = (np.array(fields[1::2], dtype=np.float64) for fields in pairs)
    return bool(np.abs(own - other).max() <= NEAR * np.abs(own).max())


def compare_lines(run: Run, model: CModel, texts: Sequence[str], *, tolerance: float = 1e-4) -> None:
    """The C's answers are those of the run: the same words, numbers within the tolerance."""
    compare_samples(run, model, [Sample(text, text) for text in texts], tolerance=tolerance)


def compare_samples(
    run: Run, model: CModel, samples: Sequence[Sample], *, tolerance: float = 1e-4, **options: Any
) -> None:
    """The C's answers are those of the run, and it prints for a user the line of `weft predict`."""
    from weft.export.c.compare import difference_of, precise

    wanted = {name: bool(value) if name == "sample" else value for name, value in options.items()}
    for sample, answer in zip(samples, run.predict([one.given for one in samples], **wanted), strict=True):
        own, other = precise(answer), model.answer(sample.line, probabilities=2, **options)
        difference = difference_of(own, other)
        if (difference is None or difference > tolerance) and run.task.writes:
            assert right_in_float64(run, sample, other, wanted), (sample.line, own, other)
            continue
        assert difference is not None, (sample.line, own, other)
        assert difference <= tolerance, (sample.line, own, other)
        printed = model.answer(sample.line, probabilities=0, **options)
        if run.config.task in ("regress", "forecast"):  # the last of a few digits may be rounded up or down
            numbers = [[float(part) for part in line.split("\t")] for line in (printed, answer.line())]
            np.testing.assert_allclose(*numbers, rtol=1e-4, atol=1e-4)
        elif run.config.task == "embed":
            near = difference_of(answer.line(), printed)
            assert near is not None, (sample.line, answer.line(), printed)
            assert near <= 2e-3, (sample.line, answer.line(), printed)
        elif run.task.writes:  # equally good texts may come in either order, and a text may have tabs
            assert printed == texts_in(other)
        else:
            assert printed == answer.line()
