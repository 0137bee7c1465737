"""The setting of an embedding: a size, "onehot", or vectors that were trained before.

    embedding = 256
    embedding = "glove.txt"                            a file of word vectors, or the folder of an embed run
    embedding = { file = "glove.txt", tune = false }   the same, and the vectors never change

The size of the vectors is read from the first line of the file when the settings are read, and is kept in the settings
of the run, which never needs the file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ValidationInfo

from weft import limits
from weft.data import read_header
from weft.disk import read_regular
from weft.documents import parse_json
from weft.errors import ConfigError, WeftError, did_you_mean
from weft.settings import Size, show

CONFIG: Final = "config.json"
KEYS: Final = ("file", "tune", "size")


@dataclass(frozen=True)
class VectorSource:
    """A file of vectors or the folder of an embed run; `tune` says whether training changes them."""

    file: str
    tune: bool = True
    size: int | None = None
    """Numbers of a vector; None before the file was looked at."""


def read_embedding(value: Any, info: ValidationInfo) -> Any:
    """A setting as a person wrote it -> a number, "onehot", a `VectorSource`, or what it is: pydantic refuses the rest.

    A finished configuration has the size of the vectors: the file is opened, except for settings of a saved run.
    """
    if isinstance(value, str) and value != "onehot":
        value = {"file": value}
    if isinstance(value, VectorSource):
        value = vars(value)
    if not isinstance(value, Mapping):
        return value
    given = dict(value)
    if "kind" in given and "file" not in given:  # a string under a table that overrides it
        given["file"] = given.pop("kind")
    source = _checked(given)
    if source.size is None and not (info.context or {}).get("keep_unread"):
        source = VectorSource(source.file, source.tune, vector_size(source.file))
    return source


def _checked(given: Mapping[str, Any]) -> VectorSource:
    for name in given:
        if name not in KEYS:
            raise ConfigError("no such setting", where=f"embedding.{name}", cure=did_you_mean(str(name), KEYS))
    file, tune, size = given.get("file"), given.get("tune", True), given.get("size")
    if not isinstance(file, str) or not file or "\0" in file:
        raise ConfigError("names no file", where=f"embedding.file = {show(file)}", cure="give the path of a file")
    if not isinstance(tune, bool):
        raise ConfigError("is not true or false", where=f"embedding.tune = {show(tune)}")
    if size is not None and not (type(size) is int and 1 <= size <= limits.SIZE):
        what = f"is no number from 1 to {limits.SIZE:,}"
        raise ConfigError(what, where=f"embedding.size = {show(size)}", cure="leave it out")
    return VectorSource(file, tune, size)


def vector_size(file: str) -> int:
    """The size of the vectors of a file, or of the run in a folder."""
    where = f"embedding = {show(file)}"
    if not Path(file).is_dir():
        try:
            return read_header(file).size
        except WeftError as error:
            raise ConfigError(f"cannot be read: {error}", where=where) from None
    try:
        config = parse_json(read_regular(Path(file) / CONFIG, most=limits.SMALL_FILE_BYTES))
        task, size = config["task"], config["model"]["embedding"] if config["task"] == "embed" else None
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError("is no run folder", where=where, cure="give a file of vectors, or an embed run") from None
    if size is None:
        raise ConfigError(f'is a run of task = "{task}"', where=where, cure="give a file of vectors, or an embed run")
    if not (type(size) is int and 1 <= size <= limits.SIZE):
        raise ConfigError("is a run without a size of its vectors", where=where, cure="copy the run again")
    return size


EmbeddingSetting = Annotated[Size | Literal["onehot"] | VectorSource, BeforeValidator(read_embedding)]
OptionalEmbedding = Annotated[Size | Literal["onehot"] | VectorSource | None, BeforeValidator(read_embedding)]


def embedding_size(setting: Size | Literal["onehot"] | VectorSource) -> int | None:
    """The size of the vectors; None where it depends on the vocabulary, or on a file that was not looked at yet."""
    if isinstance(setting, VectorSource):
        return setting.size
    return None if isinstance(setting, str) else setting
