"""The options of a cell: what its constructor takes besides the two sizes. The signature is their only list."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from weft.errors import ConfigError, did_you_mean
from weft.settings import explain, show

PLAIN = (str, int, float, bool)


class Option(NamedTuple):
    """The type an option is annotated with, Any where there is no annotation, and its default, if it has one."""

    kind: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def options_of(cell: Any) -> dict[str, Option]:
    """The options of a cell's class, or of a function that makes a cell, by their names."""
    parameters = list(inspect.signature(cell).parameters.values())[2:]
    function = inspect.unwrap(cell if inspect.isfunction(cell) else cell.__init__)
    names = getattr(function, "__globals__", {})
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        parameter.name: Option(_type(parameter.annotation, names), parameter.default)
        for parameter in parameters
        if parameter.kind in named
    }


def check_options(kind: str, cell: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of the right types, and the defaults of the others; `kind` is the name of the cell."""
    options = options_of(cell)
    for name in given:
        if name not in options:
            cure = did_you_mean(name, options) if options else "it has none"
            raise ConfigError(f"is not an option of {kind}", where=f"cell.{name}", cure=cure)
    checked: dict[str, Any] = {}
    for name, option in options.items():
        if name in given:
            checked[name] = _check(name, option, given[name])
        elif option.required:
            raise ConfigError("is missing", where=f"cell.{name}", cure=f"add it: {name} = …")
        elif isinstance(option.default, PLAIN):  # what no file could hold is left to the constructor
            checked[name] = option.default
    return checked


def _check(name: str, option: Option, value: Any) -> Any:
    try:
        found = TypeAdapter(option.kind).validate_python(value, strict=True)
    except PydanticSchemaGenerationError:
        return value  # a type of the cell's own, which only its constructor can judge
    except ValidationError as error:
        raise explain(error, ["cell", name]) from None
    if isinstance(found, float) and not math.isfinite(found):
        raise ConfigError("should be a finite number", where=f"cell.{name} = {show(value)}")
    return found


def _type(annotation: Any, names: Mapping[str, Any]) -> Any:
    """The type of an annotation; Any if there is none or if it is for type checkers only."""
    if annotation is inspect.Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, globalns=dict(names), include_extras=True)["it"]
    except NameError:
        return Any
