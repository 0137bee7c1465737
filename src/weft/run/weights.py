"""Tensors of a safetensors file, read through the descriptor that was hashed, and only those a model asks for.

    8 bytes: N, the length of the head   N bytes: the head, JSON   the rest: the numbers of all tensors, end to end

The head names each tensor with its type, its shape and its first and last byte. All of it is checked before anything is
built: the bytes of the tensors follow each other from the first to the last without holes, and are as many as type
and shape ask for. The file is read and not mapped: a mapped file that is cut meanwhile ends the process.
"""

from __future__ import annotations

import math
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
from weft.run.files import reading, shorten
from weft.run.manifest import RunFiles

TYPES: Final[Mapping[str, torch.dtype]] = {
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
"""What weft stores, by the names of the format."""

ABOUT: Final = "__metadata__"
LENGTH: Final = 8
LETTER, ENTRY = 6, 400
"""Bytes of the head at most for a letter of a tensor's name and for the rest of what it says of one."""

MIXED: Final = "the folder mixes files of two runs"


class Place(NamedTuple):
    """Where the numbers of a tensor are among those of the file, and what they are."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.shape} of {str(self.dtype).removeprefix('torch.')}"


class StoredTensors:
    """The tensors of an open file."""

    def __init__(self, file: BufferedReader, path: Path, *, head: int = limits.TENSORS_HEAD) -> None:
        self.file, self.path = file, path
        with reading(path):
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(LENGTH), "little")
            self.begin = LENGTH + length
            if size < LENGTH or length > size - LENGTH:
                raise self.damaged("it has no head")
            if length > head:
                what = f"has a head of {length:,} bytes, and {head:,} is the limit"
                raise RunError(what, where=str(path), cure=MIXED)
            content = file.read(length)
        try:
            self.places = _places(parse_json(content), size - self.begin)
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def damaged(self, why: str) -> RunError:
        return RunError(f"is damaged: {why}", where=str(self.path), cure="copy it again")

    def read(self, name: str) -> Tensor:
        """One tensor, in memory of its own."""
        place = self.places[name]
        numbers = torch.empty(place.end - place.start, dtype=torch.uint8)
        with reading(self.path):
            self.file.seek(self.begin + place.start)
            if self.file.readinto(numbers.numpy().data) < len(numbers):
                raise self.damaged("it has become shorter")
        if place.dtype == torch.bool and len(numbers) and int(numbers.max()) > 1:
            raise self.damaged(f"{shorten(name)} has truth values other than 0 and 1")
        return numbers.view(place.dtype).view(place.shape)

    def check(self, model: nn.Module, *, each: bool = False) -> None:
        """Raise unless the file holds the tensors of a model, by name, shape and type, and no others.

        Of tensors that are tied it holds one, by any of their names; with `each` all of them.
        """
        wanted = model.state_dict(keep_vars=True)
        found: dict[int, str] = {}
        for name, place in self.places.items():
            tensor = wanted.get(name)
            asked = "no such tensor" if tensor is None else str(Place(tensor.dtype, tuple(tensor.shape), 0, 0))
            if tensor is None or str(place) != asked:
                what = f"has {shorten(name)} {place}, where the configuration asks for {asked}"
                raise RunError(what, where=str(self.path), cure=MIXED)
            other = found.setdefault(id(tensor), name)
            if other != name and not each:
                raise RunError(f"has {other} and {name}, which are one tensor", where=str(self.path), cure=MIXED)
        for name, tensor in wanted.items():
            if name not in self.places and (each or id(tensor) not in found):
                raise RunError(f"lacks the tensor {name}", where=str(self.path), cure=MIXED)

    def finite(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its name; an error names the first that has a number which is none."""
        for name in self.places:
            tensor = self.read(name)
            if tensor.is_floating_point() and tensor.numel() and not all(map(torch.isfinite, tensor.aminmax())):
                cure = "train again, with a lower train.rate, or copy the folder again"
                raise RunError(f"has numbers in {name} that are not finite", where=str(self.path), cure=cure)
            yield name, tensor

    def fill(self, model: nn.Module) -> None:
        """Give a model these weights; `check` has been called."""
        targets = model.state_dict(keep_vars=True)
        with torch.no_grad():
            for name, tensor in self.finite():
                targets[name].copy_(tensor)


@contextmanager
def open_tensors(
    files: RunFiles, name: str, *, like: nn.Module | None = None, each: bool = False
) -> Iterator[StoredTensors]:
    """The tensors of a file; with `like`, those of such a model, of which nothing but the sizes is read."""
    most, head = limits.TENSORS_FILE, limits.TENSORS_HEAD
    if like is not None:
        wanted = like.state_dict()
        head = min(head, sum((LETTER * len(one) + ENTRY for one in wanted), start=ENTRY))
        most = LENGTH + head + sum(tensor.nbytes for tensor in wanted.values())
    with files.opened(name, most=most) as file:
        stored = StoredTensors(file, files.folder / name, head=head)
        if like is not None:
            stored.check(like, each=each)
        yield stored


def check_sizes(files: RunFiles) -> None:
    """Raise where a file of tensors is not as long as its head says, which takes less time than hashing it."""
    for name in files.hashes:
        if name.endswith(".safetensors"):
            with files.unhashed(name, most=limits.TENSORS_FILE) as file:
                StoredTensors(file, files.folder / name)


def load_weights(files: RunFiles, name: str, model: nn.Module) -> None:
    """Give a model the weights of a file."""
    with open_tensors(files, name, like=model) as stored:
        stored.fill(model)


def _places(head: Any, size: int) -> dict[str, Place]:
    """The tensors in the order of their bytes; a ValueError says what is wrong with the head."""
    if not isinstance(head, dict):
        raise ValueError("its head is no table")
    about = head.pop(ABOUT, {})
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise ValueError(f"{ABOUT} is no table of texts")
    places = sorted(((name, _place(name, entry)) for name, entry in head.items()), key=lambda found: found[1][2:])
    end = 0
    for name, place in places:
        if place.start != end:
            raise ValueError(f"{shorten(name)} does not begin where the tensor before it ends")
        end = place.end
    if end != size:
        raise ValueError(f"its tensors have {end:,} bytes, and the file has {size:,}")
    return dict(places)


def _place(name: str, entry: Any) -> Place:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{shorten(name)} has no dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise ValueError(f"{shorten(name)} is of the type {dtype!a:.40}")
    if not _sizes(shape) or len(shape) > limits.DIMENSIONS or not _sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{shorten(name)} has a shape or offsets that are none")
    if offsets[1] - offsets[0] != math.prod(shape) * TYPES[dtype].itemsize:
        raise ValueError(f"{shorten(name)} has not as many bytes as its shape asks for")
    return Place(TYPES[dtype], tuple(shape), *offsets)


def _sizes(found: Any) -> bool:
    return isinstance(found, list) and all(type(size) is int and size >= 0 for size in found)
