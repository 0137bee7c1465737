"""The base of every typed setting: frozen, strict, and no key that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from weft.errors import ConfigError, did_you_mean


class Settings(BaseModel):
    """A table of the configuration. It stands beside the part it configures and never changes after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


@dataclass(frozen=True)
class OneOf:
    """Marks a setting that is a table of one of several kinds: `Annotated[Contract, OneOf(ARMS)]`.

    The arms stand in a dict beside the parts, each a `Settings` with its name as `kind`; a table that names no kind is
    of the first. All arms keep the contract, which is what the type checker knows of the setting.
    """

    arms: Mapping[str, type[Settings]]

    @property
    def default(self) -> str:
        return next(iter(self.arms))

    def kind_of(self, value: Any) -> str:
        """The kind of a table as a person wrote it, of settings read from one, or of nothing at all."""
        kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        return kind or self.default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {kind: handler.generate_schema(arm) for kind, arm in self.arms.items()}
        return core_schema.no_info_before_validator_function(
            self._name_kind, core_schema.tagged_union_schema(choices, discriminator="kind", from_attributes=True)
        )

    def _name_kind(self, value: Any) -> Any:
        return {"kind": self.default, **value} if isinstance(value, Mapping) else value


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
    if kind == "union_tag_invalid":
        allowed = [tag.strip(" '") for tag in first["ctx"]["expected_tags"].split(",")]
        tag = first["ctx"]["tag"]
        where = f'{where}.kind = "{tag}"'
        return ConfigError("is not one of " + ", ".join(allowed), where=where, cure=did_you_mean(tag, allowed))
    shown = f"{where} = {_show(value)}" if not isinstance(value, Mapping) else f"[{where}]"
    if kind == "literal_error":
        allowed = [part.strip(" '") for part in first["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return ConfigError("is not one of " + ", ".join(allowed), where=shown, cure=did_you_mean(str(value), allowed))
    if kind == "value_error":
        return _place(first["ctx"]["error"], path)
    message = first["msg"].removeprefix("Input ").replace("valid dictionary or instance of", "table of settings for")
    message = message.replace("valid dictionary or object to extract fields from", "table of settings")
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
