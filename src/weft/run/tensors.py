"""Tensors as a safetensors file, hashed while they are written.

    8 bytes: N, the length of the head   N bytes: the head, JSON   the rest: the numbers of all tensors, end to end

Writing and hashing leave Python's lock to other threads, the file gets the mode of its neighbours, and what it holds
may share memory: each name has numbers of its own in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

NAMES: Final[Mapping[torch.dtype, str]] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Types of numbers by the format's names."""

ALIGNED: Final = 8
"""The numbers begin at a multiple of so many bytes."""

CHUNK: Final = 4 << 20
"""Bytes that are hashed and written at once."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> str:
    """Write tensors that are in CPU memory, and texts about them; the file's SHA-256."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # none is misaligned
    head: dict[str, object] = {"__metadata__": {"format": "pt", **(about or {})}}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.nbytes
        head[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    found = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        for part in (_head(text), *(_numbers(tensor) for _, tensor in ordered)):
            for start in range(0, len(part), CHUNK):
                chunk = part[start : start + CHUNK]
                found.update(chunk)
                while chunk:  # the system may take less than it is given
                    chunk = chunk[file.write(chunk) :]
    return found.hexdigest()


def write_weights(path: Path, weights: Mapping[str, Tensor], tied: Mapping[str, str]) -> str:
    """Write the weights of a model, those that are tied once, and return the file's SHA-256."""
    return write_tensors(path, {name: tensor for name, tensor in weights.items() if name not in tied}, tied)


def tied_names(model: nn.Module) -> dict[str, str]:
    """The names of tensors that are also there by another name, with the one under which a file has them."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return {name: first for first, *others in map(sorted, names.values()) for name in others}


def _head(text: bytes) -> memoryview:
    text += b" " * (-len(text) % ALIGNED)
    return memoryview(len(text).to_bytes(8, "little") + text)


def _numbers(tensor: Tensor) -> memoryview:
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data
