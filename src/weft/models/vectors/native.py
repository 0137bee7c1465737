"""Training of word vectors in C; the plain version is plain.py."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

from weft.models.vectors.fit import TextPart, VectorFit
from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.native.struct import ConstFloats, ConstInts, ConstLongs, Floats, NativeStruct
from weft.nn.native.threads import parallel

if TYPE_CHECKING:
    from weft.models.vectors.model import WordVectors


class NativeVectors(NativeStruct):
    """The tables, the sentences of a part, and the settings (vectors_t in train.c)."""

    c_name = "vectors_t"
    _fields_ = (
        ("inputs", Floats),
        ("outputs", Floats),
        ("losses", Floats),
        ("keep", ConstFloats),
        ("noise_share", ConstFloats),
        ("noise_first", ConstInts),
        ("noise_second", ConstInts),
        ("noise_entries", ctypes.c_long),
        ("part_starts", ConstLongs),
        ("parts", ConstInts),
        ("tokens", ConstInts),
        ("starts", ConstLongs),
        ("tasks", ConstLongs),
        ("task_count", ctypes.c_long),
        ("done", ctypes.c_long),
        ("total", ctypes.c_long),
        ("seed", ctypes.c_long),
        ("size", ctypes.c_long),
        ("window", ctypes.c_long),
        ("negatives", ctypes.c_long),
        ("rate", ctypes.c_float),
        ("cbow", ctypes.c_int),
    )


LIBRARY = Library(ARITHMETIC, CFile("weft.models.vectors", "train.c", (NativeVectors,)))


def serves(model: WordVectors) -> bool:
    """Whether the C can train this model here."""
    with torch.no_grad():
        return model.inputs.is_contiguous() and LIBRARY.serves(model.inputs, model.outputs)


def train_native(fit: VectorFit, part: TextPart) -> tuple[float, int]:
    """Train on a part with all threads; returns the sum of the losses of some pairs, and their number."""
    model, config = fit.model, fit.model.config
    tasks = len(part.tasks) - 1
    losses = torch.zeros(tasks, 2)
    tensor = torch.from_numpy
    starts, rows = (None, None) if fit.parts is None else map(tensor, fit.parts)
    native = NativeVectors(
        inputs=model.inputs,
        outputs=model.outputs,
        losses=losses,
        keep=tensor(fit.keep),
        noise_share=tensor(fit.noise.share),
        noise_first=tensor(fit.noise.first),
        noise_second=tensor(fit.noise.second),
        noise_entries=len(fit.noise.share),
        part_starts=starts,
        parts=rows,
        tokens=tensor(part.tokens),
        starts=tensor(part.starts),
        tasks=tensor(part.tasks),
        task_count=tasks,
        done=part.done,
        total=fit.all_tokens,
        seed=part.seed,
        size=config.embedding,
        window=config.window,
        negatives=config.negatives,
        rate=float(fit.options.rate),
        cbow=int(model.config.cbow),
    )
    if LIBRARY.function("train_vectors")(ctypes.byref(native), ctypes.c_long(fit.options.threads), parallel()):
        raise MemoryError("train_vectors found no memory for its buffers: use shorter lines or a smaller window")
    total, count = losses.double().sum(0).tolist()
    return total, int(count)
