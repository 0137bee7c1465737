"""The sections of a configuration that belong to a task, and the facts that its defaults depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import field_validator

from weft.data import Shape
from weft.settings import Settings
from weft.text import TextConfig

Tree = dict[str, Any]
"""A part of a configuration as plain nested tables."""


class Facts(NamedTuple):
    """Facts that defaults depend on: the size of the training data, the type of the device, and the shape of the texts
    of pairs."""

    examples: int
    characters: int
    device: str = "cpu"
    source: Shape | None = None
    target: Shape | None = None
    width: int = 0
    """The numbers of each step, where the input is feature vectors; `characters` then counts numbers."""


class DataConfig(Settings):
    """The `[data]` section as every task has it."""

    train: str | list[str]
    """Training examples."""
    valid: str | list[str] | None = None
    """Validation examples; without them a part of `train` is set aside."""
    test: str | list[str] | None = None
    """Test examples, looked at once, when training is over."""

    @field_validator("train", "valid", "test")
    @classmethod
    def _names_files(cls, paths: str | list[str] | None) -> str | list[str] | None:
        if isinstance(paths, list) and (not paths or "" in paths):
            raise ValueError("names no file; give a path")
        return paths

    def files(self, part: str) -> str | list[str] | None:
        """The files of `train`, `valid` or `test`; None for a part without any, or one that is cut off `train`."""
        found = getattr(self, part)
        return found if isinstance(found, str | list) else None

    @property
    def running(self) -> bool:
        """Whether a file is one running text, whose records are blocks of it."""
        return False

    @property
    def in_a_row(self) -> bool:
        """Whether `train.truncate` may lay the texts one after another and read on in them."""
        return False


class Sections(NamedTuple):
    """The types of the three sections of a configuration that differ between tasks.

    `model` is a table of settings, or a choice of several: `Annotated[…, OneOf(ARMS)]`. `marks` counts the start and
    end tokens that a network reads beside the tokens of an example.
    """

    data: type[DataConfig]
    text: type[TextConfig]
    model: Any
    marks: int = 1


class StackPlace(NamedTuple):
    """Where the settings of an encoder or a decoder stand in a configuration, those of its tokens, and the role of its
    tokenizer."""

    model: str = "model"
    text: str = "text"
    role: str = ""


def written(tree: Mapping[str, Any], *path: str) -> Any:
    """The value that a person wrote at a path of the configuration, as a table or as settings; None without one."""
    found: Any = tree
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
    return found
