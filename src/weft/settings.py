"""The base of every typed setting: frozen, strict, and no key that nothing reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from weft.errors import did_you_mean


class Settings(BaseModel):
    """A table of the configuration. It stands beside the part it configures and never changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def known(name: str, names: Mapping[str, Any]) -> str:
    """The name, if it is one of the names; for fields whose choices stand in a dict beside the parts."""
    if name not in names:
        raise ValueError(f'"{name}" is not one of {", ".join(names)} ({did_you_mean(name, names)})')
    return name
