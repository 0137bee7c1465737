"""Reading and writing safetensors files, which hold the weights of models and the tensors of checkpoints.

    8 bytes: N, the length of the header   N bytes: the header, JSON   the rest: the numbers of all tensors, end to end

The header names each tensor with its type, its shape and its first and last byte. All of it is checked before anything
is built: the bytes of the tensors follow each other from the first to the last without holes, and each tensor has as
many as its type and shape need. A file is read through the descriptor that was hashed, and not mapped: a mapped file
that is cut meanwhile ends the process.

A file is hashed while it is written. Both release Python's lock, so that training continues.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from weft import limits
from weft.documents import parse_json
from weft.errors import RunError
from weft.models import FittedModel
from weft.run.folder.files import reading, shorten
from weft.run.folder.manifest import RunFiles

DTYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The types that weft stores, by the names of the format."""

DTYPE_NAMES: Final[Mapping[torch.dtype, str]] = {dtype: name for name, dtype in DTYPES.items()}

OTHER_DTYPES: Final = re.compile(r"(?:F|E|C|U)\d+[A-Z0-9_]*")
"""The names of types of the format that weft does not read: 8 bits and fewer, complex numbers."""

METADATA: Final = "__metadata__"
LENGTH_BYTES: Final = 8
ALIGNMENT_BYTES: Final = 8
"""The numbers begin at a multiple of so many bytes."""

CHUNK_BYTES: Final = 4 << 20
"""Bytes that are hashed and written at once."""

MAX_CHARACTER_BYTES, MAX_ENTRY_BYTES = 6, 400
"""Bytes of the header for a character of a tensor's name, and for the rest of its entry, at most."""

MIXED: Final = "the folder mixes files of two runs"


class TensorEntry(NamedTuple):
    """The type and shape of a tensor, and the bytes from `start` to `end` among the numbers of the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.shape} of {str(self.dtype).removeprefix('torch.')}"


class StoredTensors:
    """The tensors of an open file."""

    def __init__(self, file: BufferedReader, path: Path, *, max_header: int = limits.TENSORS_HEADER_BYTES) -> None:
        self.file, self.path = file, path
        with reading(path):
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            self.begin = LENGTH_BYTES + length
            if size < LENGTH_BYTES or length > size - LENGTH_BYTES:
                raise self.damaged("it has no header")
            if length > max_header:
                what = f"has a header of {length:,} bytes, and {max_header:,} is the limit"
                raise RunError(what, where=str(path), cure=MIXED)
            content = file.read(length)
        try:
            self.entries = _read_header(parse_json(content), size - self.begin)
        except OtherType as error:
            cure = "save the model in float32, float16 or bfloat16"
            raise RunError(str(error), where=str(path), cure=cure) from None
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def damaged(self, why: str) -> RunError:
        return RunError(f"is damaged: {why}", where=str(self.path), cure="copy it again")

    def read(self, name: str) -> Tensor:
        """Read one tensor into memory of its own."""
        entry = self.entries[name]
        numbers = torch.empty(entry.end - entry.start, dtype=torch.uint8)
        with reading(self.path):
            self.file.seek(self.begin + entry.start)
            if self.file.readinto(numbers.numpy().data) < len(numbers):
                raise self.damaged("it has become shorter")
        if entry.dtype == torch.bool and len(numbers) and int(numbers.max()) > 1:
            raise self.damaged(f"{shorten(name)} has truth values other than 0 and 1")
        return numbers.view(entry.dtype).view(entry.shape)

    def allocate(self, model: nn.Module) -> None:
        """Give a model that was fitted to data the sizes that its tensors have in this file.

        A model that has them already keeps its numbers.
        """
        shapes = {name: torch.Size(entry.shape) for name, entry in self.entries.items()}
        if isinstance(model, FittedModel) and shapes != {name: one.shape for name, one in model.state_dict().items()}:
            try:
                model.allocate(shapes)
            except ValueError as error:
                raise RunError(f"is of no such model: {error}", where=str(self.path), cure=MIXED) from None

    def check(self, model: nn.Module, *, each: bool = False) -> None:
        """Raise unless the file holds the tensors of a model, by name, shape and type, and no others.

        Of tied tensors it holds one, by any of their names; with `each` all of them.
        """
        wanted = model.state_dict(keep_vars=True)
        found: dict[int, str] = {}
        for name, entry in self.entries.items():
            tensor = wanted.get(name)
            needed = "no such tensor" if tensor is None else str(TensorEntry(tensor.dtype, tuple(tensor.shape), 0, 0))
            if tensor is None or str(entry) != needed:
                what = f"has {shorten(name)} {entry}, where the configuration asks for {needed}"
                raise RunError(what, where=str(self.path), cure=MIXED)
            other = found.setdefault(id(tensor), name)
            if other != name and not each:
                raise RunError(f"has {other} and {name}, which are one tensor", where=str(self.path), cure=MIXED)
        for name, tensor in wanted.items():
            if name not in self.entries and (each or id(tensor) not in found):
                raise RunError(f"lacks the tensor {name}", where=str(self.path), cure=MIXED)

    def finite(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor with its name; raise at the first with a number that is NaN or infinite."""
        for name in self.entries:
            tensor = self.read(name)
            if tensor.is_floating_point() and tensor.numel() and not all(map(torch.isfinite, tensor.aminmax())):
                cure = "train again, with a lower train.rate, or copy the folder again"
                raise RunError(f"has numbers in {name} that are not finite", where=str(self.path), cure=cure)
            yield name, tensor

    def fill(self, model: nn.Module) -> None:
        """Copy these weights into a model; `check` must have been called with it."""
        targets = model.state_dict(keep_vars=True)
        with torch.no_grad():
            for name, tensor in self.finite():
                targets[name].copy_(tensor)
        if isinstance(model, FittedModel):
            try:
                model.check()
            except ValueError as error:
                raise self.damaged(str(error)) from None


@contextmanager
def open_tensors(
    files: RunFiles, name: str, *, like: nn.Module | None = None, each: bool = False
) -> Iterator[StoredTensors]:
    """Open a file of tensors; with `like` they must be those of such a model, of which only the sizes are read."""
    most, max_header = limits.TENSORS_FILE_BYTES, limits.TENSORS_HEADER_BYTES
    if like is not None and not isinstance(like, FittedModel):
        wanted = like.state_dict()
        needed = sum((MAX_CHARACTER_BYTES * len(one) + MAX_ENTRY_BYTES for one in wanted), start=MAX_ENTRY_BYTES)
        max_header = min(max_header, needed)
        most = LENGTH_BYTES + max_header + sum(tensor.nbytes for tensor in wanted.values())
    with files.opened(name, most=most) as file:
        stored = StoredTensors(file, files.folder / name, max_header=max_header)
        if like is not None:
            stored.allocate(like)
            stored.check(like, each=each)
        yield stored


def check_sizes(files: RunFiles) -> None:
    """Raise where a file of tensors is not as long as its header says, which takes less time than hashing it."""
    for name in files.hashes:
        if name.endswith(".safetensors"):
            with files.unhashed(name, most=limits.TENSORS_FILE_BYTES) as file:
                StoredTensors(file, files.folder / name)


def load_weights(files: RunFiles, name: str, model: nn.Module) -> None:
    """Copy the weights of a file into a model."""
    with open_tensors(files, name, like=model) as stored:
        stored.fill(model)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> str:
    """Write tensors that are in CPU memory, and return the SHA-256 of the file.

    Tensors may share memory; each name has numbers of its own in the file.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # none is misaligned
    header: dict[str, object] = {METADATA: {"format": "pt", **(metadata or {})}}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    found = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        for part in (_header_bytes(text), *(_numbers(tensor) for _, tensor in ordered)):
            for start in range(0, len(part), CHUNK_BYTES):
                chunk = part[start : start + CHUNK_BYTES]
                found.update(chunk)
                while chunk:  # the system may write less than it is given
                    chunk = chunk[file.write(chunk) :]
    return found.hexdigest()


def write_weights(path: Path, weights: Mapping[str, Tensor], tied: Mapping[str, str]) -> str:
    """Write the weights of a model, tied ones once, and return the SHA-256 of the file."""
    return write_tensors(path, {name: tensor for name, tensor in weights.items() if name not in tied}, tied)


def tied_names(model: nn.Module) -> dict[str, str]:
    """Return the names of tensors that have another name too, each with the name that a file has for it."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return {name: first for first, *others in map(sorted, names.values()) for name in others}


def _header_bytes(text: bytes) -> memoryview:
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    return memoryview(len(text).to_bytes(LENGTH_BYTES, "little") + text)


def _numbers(tensor: Tensor) -> memoryview:
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data


def _read_header(header: Any, size: int) -> dict[str, TensorEntry]:
    """Return the tensors in the order of their bytes; a ValueError says what is wrong with the header."""
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"{METADATA} is no table of texts")
    entries = sorted(((name, _read_entry(name, entry)) for name, entry in header.items()), key=lambda one: one[1][2:])
    end = 0
    for name, entry in entries:
        if entry.start != end:
            raise ValueError(f"{shorten(name)} does not begin where the tensor before it ends")
        end = entry.end
    if end != size:
        raise ValueError(f"its tensors have {end:,} bytes, and the file has {size:,}")
    return dict(entries)


class OtherType(ValueError):
    """A tensor of a type that weft does not read."""


def _read_entry(name: str, entry: Any) -> TensorEntry:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{shorten(name)} has no dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        known = isinstance(dtype, str) and OTHER_DTYPES.fullmatch(dtype)
        raise (OtherType if known else ValueError)(f"{shorten(name)} is of the type {dtype!a:.40}")
    if not _are_sizes(shape) or len(shape) > limits.DIMENSIONS or not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{shorten(name)} has a shape or offsets that are none")
    if offsets[1] - offsets[0] != math.prod(shape) * DTYPES[dtype].itemsize:
        raise ValueError(f"{shorten(name)} has not as many bytes as its shape asks for")
    return TensorEntry(DTYPES[dtype], tuple(shape), *offsets)


def _are_sizes(found: Any) -> bool:
    return isinstance(found, list) and all(type(size) is int and size >= 0 for size in found)
