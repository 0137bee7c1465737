"""The base of every typed setting: frozen, strict, and no key that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from weft.errors import ConfigError, did_you_mean


class Settings(BaseModel):
    """A table of the configuration. It stands beside the part it configures and never changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def known(name: str, names: Mapping[str, Any]) -> str:
    """The name, if it is one of the names; for fields whose choices stand in a dict beside the parts."""
    if name not in names:
        raise ValueError(f'"{name}" is not one of {", ".join(names)} ({did_you_mean(name, names)})')
    return name


def explain(error: ValidationError, path: Sequence[str], names: Iterable[str] = ()) -> ConfigError:
    """The first of pydantic's findings in the words of this project: it stands at `path`, where `names` are valid."""
    first = error.errors()[0]
    where = ".".join(path)
    kind, value = first["type"], first["input"]
    if kind == "extra_forbidden":
        return ConfigError("no such setting", where=where, cure=did_you_mean(path[-1], names))
    if kind == "missing":
        return ConfigError("is missing", where=where, cure=f"add it: {path[-1]} = …")
    shown = f"{where} = {_show(value)}" if not isinstance(value, Mapping) else f"[{where}]"
    if kind == "literal_error":
        allowed = [part.strip(" '") for part in first["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return ConfigError("is not one of " + ", ".join(allowed), where=shown, cure=did_you_mean(str(value), allowed))
    if kind == "value_error":
        return _place(first["ctx"]["error"], path)
    message = first["msg"].removeprefix("Input ").replace("valid dictionary or instance of", "table of settings for")
    return ConfigError(message, where=shown)


def _place(error: ValueError, path: Sequence[str]) -> ConfigError:
    """What a validator raised. A part knows its own setting and what is below it; the path above it is added here."""
    if not isinstance(error, ConfigError):
        return ConfigError(str(error), where=".".join(path))
    placed = ConfigError(error.what, where=".".join([*path[:-1], error.where or path[-1]]), cure=error.cure)
    placed.__cause__ = error
    return placed


def _show(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
