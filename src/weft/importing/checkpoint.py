"""A folder of a Hugging Face checkpoint, read within the limits of run folders: config.json, safetensors, other files.

Nothing is unpickled, and no code of the folder is run. No file is a link, except as in the cache of the hub:

    models--NAME/snapshots/REVISION/config.json -> ../../blobs/HASH
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from weft import limits
from weft.disk import open_regular, read_regular
from weft.documents import parse_json
from weft.errors import DataError, RunError, counted
from weft.run.folder.weights import StoredTensors

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
SNAPSHOTS: Final = "snapshots"
BLOBS: Final = "blobs"
"""Folders of the cache of the hub: of the names of files by revision, and of their contents."""

MAX_SHARDS: Final = 1000
"""Files that the weights of a checkpoint may be split into."""

CONVERT: Final = (
    'python -c \'from transformers import AutoTokenizer, {model}; {model}.from_pretrained("{folder}")'
    '.save_pretrained("NEW_FOLDER"); AutoTokenizer.from_pretrained("{folder}").save_pretrained("NEW_FOLDER")\''
)
"""The command that writes the weights of a folder as safetensors, and its tokenizer."""

MAX_WEIGHT: Final = 1e9
"""The largest weight: products of larger ones overflow float32."""

NAMED: Final = 3
"""Names that an error lists, of all those it could."""


class Checkpoint:
    """The settings and the weights of a checkpoint, and its other files by name."""

    def __init__(self, folder: Path, shards: Sequence[StoredTensors]) -> None:
        self.folder = folder
        self.config = self.table(CONFIG)
        self._places = {name: shard for shard in shards for name in shard.entries}
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def content(self, name: str, *, most: int = limits.SMALL_FILE_BYTES) -> bytes:
        """The bytes of a file."""
        path = self.folder / name
        try:
            return read_regular(real_path(path), most=most)
        except FileNotFoundError:
            raise DataError(f"has no {name}", where=str(self.folder)) from None
        except OSError as error:
            raise cannot_read(path, error) from None

    def table(self, name: str, *, most: int = limits.SMALL_FILE_BYTES) -> dict[str, Any]:
        """A JSON file whose value is a table."""
        try:
            found = parse_json(self.content(name, most=most))
        except ValueError as error:
            raise DataError(f"cannot be read: {error}", where=str(self.folder / name)) from None
        if not isinstance(found, dict):
            raise DataError("is not a table", where=str(self.folder / name))
        return found

    def refuse(self, name: str, value: object, cure: str | None = None) -> DataError:
        """The error for a setting that weft cannot honour."""
        said = str(value).lower() if isinstance(value, bool) else f"{value!r:.60}"
        what = f"{name} = {said} has no counterpart in weft"
        return DataError(what, where=str(self.folder / CONFIG), cure=cure)

    def number(self, name: str, default: int | None = None, *, most: int = limits.SIZE) -> int:
        """A setting that is a whole number above 0."""
        value = self.config.get(name)
        value = default if value is None else value
        if type(value) is not int or not 0 < value <= most:
            what = f"{name} = {value!r:.60} is not a number from 1 to {most:,}"
            raise DataError(what, where=str(self.folder / CONFIG))
        return value

    def share(self, name: str, default: float) -> float:
        """A setting from 0 to less than 1, such as a dropout."""
        value = self.config.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
            what = f"{name} = {value!r:.60} is not a number from 0 to less than 1"
            raise DataError(what, where=str(self.folder / CONFIG))
        return float(value)

    def choose(self, name: str, values: dict[str, str], default: str) -> str:
        """Our name for a setting with one of some values."""
        value = self.config.get(name, default)
        if not isinstance(value, str) or value not in values:
            raise self.refuse(name, value, f"weft has {', '.join(sorted(values))}")
        return values[value]

    def only(self, name: str, *values: object) -> None:
        """Raise unless a setting is missing or has one of these values."""
        if name in self.config and self.config[name] not in values:
            raise self.refuse(name, self.config[name])

    def holds(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return name in self._places

    def tensor(self, name: str, *shape: int) -> Tensor:
        """A tensor in float32, which must have that shape and finite numbers."""
        where = str(self.folder)
        if name not in self._places:
            raise DataError(f"lacks the tensor {name}", where=where, cure="is the checkpoint complete?")
        stored = self._places[name]
        entry = stored.entries[name]
        if not entry.dtype.is_floating_point:
            what = f"{name} has numbers of the type {str(entry.dtype).removeprefix('torch.')}"
            cure = "save the model in float32, float16 or bfloat16 and import that"
            raise DataError(what, where=str(stored.path), cure=cure)
        if entry.shape != shape:
            what = f"{name} is {entry}, where {CONFIG} asks for {shape}"
            raise DataError(what, where=str(stored.path), cure="are the two files of one model?")
        self._read.add(name)
        found = stored.read(name).float()
        if not bool(torch.isfinite(found).all()):
            raise DataError(f"{name} has numbers that are not finite", where=str(stored.path))
        if float(found.abs().max() if found.numel() else 0) > MAX_WEIGHT:
            what = f"{name} has numbers above {MAX_WEIGHT:.0e}, with which the model could only compute NaN"
            raise DataError(what, where=str(stored.path), cure="copy it again")
        return found

    def skip(self, *names: str) -> None:
        """Count tensors as read: their numbers follow from others."""
        self._read.update(names)

    def unread(self) -> list[str]:
        """The names of the tensors that nothing has read."""
        return sorted(set(self._places) - self._read)


def real_path(path: Path) -> Path:
    """The file of the hub's cache that a link in one of its snapshots names; any other path as it is.

    A link is read as text and not followed: what it names has to be a regular file of the cache, and not another link.
    """
    snapshots = path.absolute().parent.parent
    if snapshots.name == SNAPSHOTS and path.is_symlink():
        name = path.readlink().name
        if path.readlink() == Path("..", "..", BLOBS, name):
            return snapshots.parent / BLOBS / name
    return path


def cannot_read(path: Path, error: OSError) -> DataError:
    link = path.is_symlink()
    cure = f"copy the folder with its links resolved: cp -rL {path.parent} NEW_FOLDER" if link else None
    return DataError(f"cannot be read: {error.strerror or error}", where=str(path), cure=cure)


@contextmanager
def open_checkpoint(folder: Path) -> Iterator[Checkpoint]:
    """Open a checkpoint; its tensors are read from the open files, one at a time."""
    if not (folder / CONFIG).exists():
        what = "is no checkpoint: it has no config.json"
        cure = "give a folder that save_pretrained of transformers wrote"
        if inside := sorted(path for path in folder.glob(f"{SNAPSHOTS}/*") if (path / CONFIG).exists()):
            cure = f"it is a cache of the hub: give one of its snapshots, such as {inside[0]}"
        raise DataError(what, where=str(folder), cure=cure)
    if (folder / "manifest.json").exists():
        raise DataError("is a run of weft already", where=str(folder), cure="use it as it is")
    with ExitStack() as opened:
        shards = []
        for name in _shards(folder):
            path = folder / name
            try:
                file = opened.enter_context(open_regular(real_path(path), most=limits.TENSORS_FILE_BYTES))
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise DataError(f"lacks {name}, which {INDEX} names", where=str(folder)) from None
                raise cannot_read(path, error) from None
            try:
                shards.append(StoredTensors(file, path))
            except RunError as error:
                raise DataError(error.what, where=error.where, cure=error.cure) from None
        yield Checkpoint(folder, shards)


def _shards(folder: Path) -> list[str]:
    """The names of the files with weights."""
    if (folder / WEIGHTS).exists():
        return [WEIGHTS]
    if (folder / INDEX).exists():
        try:
            table = parse_json(read_regular(real_path(folder / INDEX), most=limits.SMALL_FILE_BYTES))
            names = sorted(set(table["weight_map"].values()))
        except OSError as error:
            raise cannot_read(folder / INDEX, error) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError("is no index of weights", where=str(folder / INDEX)) from None
        if len(names) > MAX_SHARDS or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise DataError("names files outside of the folder, or too many", where=str(folder / INDEX))
        return names
    others = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".h5", ".msgpack"))
    if others:
        what = f"has its weights only as {', '.join(others[:NAMED])}, which weft does not read: such files can run code"
        line = CONVERT.format(folder=folder, model=_architecture(folder))
        raise DataError(what, where=str(folder), cure=f"if you trust them, convert them: {line}")
    cure = "copy the whole folder that save_pretrained of transformers wrote"
    raise DataError(f"has no {WEIGHTS}", where=str(folder), cure=cure)


def _architecture(folder: Path) -> str:
    """The class of transformers that a checkpoint names, or a word in its place."""
    try:
        [name] = parse_json(read_regular(real_path(folder / CONFIG), most=limits.SMALL_FILE_BYTES))["architectures"]
    except (OSError, ValueError, TypeError, KeyError):
        return "AutoModel"
    return name if isinstance(name, str) and name.isidentifier() else "AutoModel"


def name_some(names: Sequence[str]) -> str:
    """The first of some names, and how many there are."""
    more = f" and {counted(len(names) - NAMED, 'other')}" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
