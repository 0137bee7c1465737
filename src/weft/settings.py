"""The base class of all settings: frozen, strictly typed, and without settings that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from weft import limits
from weft.errors import ConfigError, did_you_mean

KEEP_UNREAD: Final = {"keep_unread": True}
"""The context for validation that accepts settings that nothing reads: those of a saved run, and those that still lack
their defaults."""

Layers = Annotated[int, Field(ge=1, le=limits.LAYERS)]
Heads = Annotated[int, Field(ge=1, le=limits.LAYERS)]
Size = Annotated[int, Field(ge=1, le=limits.SIZE)]
Length = Annotated[int, Field(ge=1, le=limits.LENGTH_TOKENS)]
Vocabulary = Annotated[int, Field(ge=1, le=limits.VOCABULARY)]
Count = Annotated[int, Field(ge=1, le=limits.COUNT)]
CountFromZero = Annotated[int, Field(ge=0, le=limits.COUNT)]
Hypotheses = Annotated[int, Field(ge=1, le=limits.BEAM)]
Seed = Annotated[int, Field(ge=0, le=limits.SEED)]
Number = Annotated[float, Field(ge=0.0, le=limits.NUMBER)]
Positive = Annotated[float, Field(gt=0.0, le=limits.NUMBER)]
Signed = Annotated[float, Field(ge=-limits.NUMBER, le=limits.NUMBER)]
"""The types of numbers: no setting is a plain int or float, each has a limit (checked by a test)."""


SHOWN_CHARACTERS: Final = 80
"""Characters of a value in a message."""


class Unread(NamedTuple):
    """A setting of a table that nothing reads while the others are as they are."""

    name: str
    """Its name, or its path below the table."""
    why: str
    cure: str
    harmless: tuple[Any, ...] = ()
    """Values besides the default that mean the same as leaving it out."""


class TableError(ConfigError):
    """A setting that does not go with others of its table; `where` is its path below the table."""


class Settings(BaseModel):
    """A table of the configuration. It stands beside the part it configures and never changes after reading."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def unread(self) -> Iterator[Unread]:
        """The settings that nothing reads beside the others: only their defaults are accepted."""
        return iter(())

    def idle(self, usual: Mapping[str, Any] = MappingProxyType({})) -> Iterator[TableError]:
        """An error for each setting that nothing reads and whose value is neither the usual one nor, where `usual` has
        none, the default."""
        for name, why, cure, harmless in self.unread():
            *above, last = name.split(".")
            table, known = self, usual
            for part in above:
                table, known = getattr(table, part), known.get(part, {})
            value = getattr(table, last)
            if value != known.get(last, table.default_of(last)) and value not in harmless:
                yield TableError(why, where=f"{name} = {show(value)}", cure=cure)

    def all_idle(self, usual: Mapping[str, Any] = MappingProxyType({})) -> Iterator[TableError]:
        """The errors of `idle` for this table and for those below it."""
        yield from self.idle(usual)
        for name, value in self:
            for error in value.all_idle(usual.get(name, {})) if isinstance(value, Settings) else ():
                yield TableError(error.what, where=f"{name}.{error.where}", cure=error.cure)

    def default_of(self, name: str) -> Any:
        """The default of a setting, which may depend on those before it."""
        return type(self).model_fields[name].get_default(call_default_factory=True, validated_data=dict(self))

    @model_validator(mode="after")
    def _reads_all(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("keep_unread"):
            for error in self.idle():
                raise error
        return self


@dataclass(frozen=True)
class OneOf:
    """Marks a setting that is a table of one of several kinds: `Annotated[Contract, OneOf(ARMS)]`.

    The arms stand in a dict beside the parts, each a `Settings` with its name as `kind`; a table without a kind is
    of the first. All arms have the type of the contract, which the type checker uses. The dict is read whenever a table
    is validated, so that a line may be added to it at any time.
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
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: Any, info: ValidationInfo) -> Settings:
        table = {"kind": self.default, **value} if isinstance(value, Mapping) else value
        found: Settings = _union(tuple(self.arms.items())).validate_python(table, context=info.context)
        return found


@cache
def _union(arms: tuple[tuple[str, type[Settings]], ...]) -> SchemaValidator:
    """The validator of a table that is one of the arms, by its `kind`."""
    choices = {kind: arm.__pydantic_core_schema__ for kind, arm in arms}
    return SchemaValidator(core_schema.tagged_union_schema(choices, discriminator="kind", from_attributes=True))


def known(name: str, names: Mapping[str, Any]) -> str:
    """The name, if it is one of the names; for fields whose choices stand in a dict beside the parts."""
    if name not in names:
        raise ValueError(f'"{name}" is not one of {", ".join(names)} ({did_you_mean(name, names)})')
    return name


def explain(error: ValidationError, path: Sequence[str], names: Iterable[str] = ()) -> ConfigError:
    """The first of pydantic's errors as a ConfigError: it stands at `path`, where `names` are valid."""
    first, *others = error.errors()
    if isinstance(first["input"], list | Mapping):  # where a value or a list or table may stand, what is wrong inside
        first = next((one for one in others if len(one["loc"]) > len(first["loc"])), first)
    elif first["type"] == "literal_error" and not isinstance(first["input"], str):
        # Where a name or a number may stand, what is wrong with the number.
        first = next((one for one in others if one["loc"][:-1] == first["loc"][:-1]), first)
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
    shown = f"{where} = {show(value)}" if not isinstance(value, Mapping) else f"[{where}]"
    if kind == "literal_error":
        allowed = [part.strip(" '") for part in first["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return ConfigError("is not one of " + ", ".join(allowed), where=shown, cure=did_you_mean(str(value), allowed))
    if kind == "value_error":
        return _place(first["ctx"]["error"], path)
    if kind == "less_than_equal" and first["ctx"]["le"] > 1:
        return ConfigError(f"is more than {int(first['ctx']['le']):,}, the limit", where=shown, cure="lower it")
    message = first["msg"].removeprefix("Input ").replace("valid dictionary or instance of", "table of settings for")
    message = message.replace("valid dictionary or object to extract fields from", "table of settings")
    return ConfigError(message, where=shown)


def _place(error: ValueError, path: Sequence[str]) -> ConfigError:
    """The error of a validator with its whole path: a validator knows only its own setting and those below it."""
    if not isinstance(error, ConfigError):
        return ConfigError(str(error), where=".".join(path))
    above = path if isinstance(error, TableError) else path[:-1]
    placed = ConfigError(error.what, where=".".join([*above, error.where or path[-1]]), cure=error.cure)
    placed.__cause__ = error
    return placed


def show(value: Any) -> str:
    """A value as in a config file; only the beginning of a long one, and surrogates as escapes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = [f"{name} = {show(each)}" for name, each in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    text = value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else repr(value)
    text = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return f'"{text}"' if isinstance(value, str) else text
