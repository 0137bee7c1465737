"""Configurations as plain nested tables: reading TOML and JSON, overriding, merging, writing TOML."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft import limits
from weft.config.migrations import CONFIG, migrate
from weft.data.sources import has_surrogate
from weft.disk import read_regular
from weft.documents import check_version, parse_json, parse_toml
from weft.errors import ConfigError
from weft.settings import show

Tree = dict[str, Any]

HEAD = ("model_type", "format_version", "weft_version")
"""Keys of a run's `config.json` that are not settings."""

FILES: Final = ("data.train", "data.valid", "data.test")
NUMBER_BOUND: Final = 10**limits.DIGITS
TOO_DEEP: Final = f"more than {limits.NESTING_LEVELS} tables and lists in each other"


def read_tree(path: str | Path) -> Tree:
    """The tables of a TOML file, or of a `config.json` that weft wrote."""
    if not isinstance(path, str | os.PathLike):
        raise ConfigError("is no configuration", where=show(path), cure="give the path of a TOML file, or a dict")
    path = Path(path)
    if path.suffix not in (".toml", ".json") and path.is_file():
        cure = f"give a task first, as in: weft train classify {path}; a configuration ends in .toml"
        raise ConfigError("is no configuration", where=str(path), cure=cure)
    try:
        content = read_regular(
            path, most=limits.SMALL_FILE_BYTES if path.suffix == ".json" else limits.CONFIG_FILE_BYTES, follow=True
        )
        tree = parse_json(content) if path.suffix == ".json" else parse_toml(content.decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError("no such file", where=str(path), cure="`weft new TASK` writes one to start from") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not text in UTF-8", where=str(path), cure="a config is a TOML file") from None
    except ValueError as error:
        raise ConfigError(f"is not valid {path.suffix[1:].upper() or 'TOML'}: {error}", where=str(path)) from None
    if not isinstance(tree, dict):
        raise ConfigError("is not a table of settings", where=str(path))
    if path.suffix != ".json":
        return tree
    version = check_version(tree.get("format_version", 0), str(path), written_by=tree.get("weft_version"))
    migrate({CONFIG: tree}, version)
    return {key: value for key, value in tree.items() if key not in HEAD}


def parse_overrides(words: Iterable[str]) -> Tree:
    """`section.key=value` words as a tree. Values are TOML; what is not TOML, or names a file, is a plain string."""
    tree: Tree = {}
    for word in words:
        path, equals, value = word.partition("=")
        if not equals or not all(path.split(".")):
            raise ConfigError(
                "is not a setting", where=f'"{word}"', cure="write section.key=value, as in train.rate=3e-4"
            )
        is_file = path in FILES and os.path.lexists(value)  # a file may be called 2024 or [1]
        tree = merge(tree, nest(path, value if is_file else parse_value(value)))
    return tree


def parse_value(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise ConfigError(f"cannot be read: {error}", where=f'"{text:.40}"') from None


def check_values(tree: Mapping[str, Any]) -> None:
    """Raise an error for values that no run can save: numbers that are not finite or have too many digits, text that is
    not Unicode, such as a file name of other bytes, and tables nested too deep."""
    _check_value(tree, "", depth=0)


def _check_value(value: Any, where: str, *, depth: int) -> None:
    if depth > limits.NESTING_LEVELS:
        raise ConfigError(TOO_DEEP, where=where.partition(".")[0], cure="no setting needs that")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_key(key, where)
            _check_value(key, where, depth=depth)
            _check_value(inner, f"{where}.{key}" if where else str(key), depth=depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_value(inner, where, depth=depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError("should be a finite number", where=f"{where} = {show(value)}")
    elif isinstance(value, int) and not -NUMBER_BOUND < value < NUMBER_BOUND:
        raise ConfigError(f"a number of more than {limits.DIGITS} digits", where=where, cure="lower it")
    elif isinstance(value, str) and where in FILES and "\0" in value:
        raise ConfigError("has a NUL, which no path can have", where=f"{where} = {value!a:.100}")
    elif isinstance(value, str) and has_surrogate(value):
        cure = "rename the file" if where.startswith("data.") else "write it in UTF-8"
        what = "is not UTF-8, and a run could not be saved with it"
        raise ConfigError(what, where=f"{where} = {show(value)}", cure=cure)


def check_key(key: object, where: str = "") -> None:
    """Raise an error for a key of a Python table, or of overrides, that is not a string."""
    if not isinstance(key, str):
        place = f"{where}[{show(key)}]" if where else show(key)
        raise ConfigError("is no name of a setting", where=place, cure='names are strings, such as "train.rate"')


def nest(path: str, value: Any) -> Tree:
    """`a.b` and 1 -> {"a": {"b": 1}}."""
    check_key(path)
    if path.count(".") > limits.NESTING_LEVELS:
        raise ConfigError(TOO_DEEP, where=show(path), cure="no setting needs that")
    for key in reversed(path.split(".")):
        value = {key: value}
    return value  # type: ignore[no-any-return]


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Both trees in one; `above` overrides `below`. A string under a table is the `kind` of that table."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, str) and isinstance(value, Mapping) and "kind" not in value:
            under = {"kind": under}
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def without(tree: Mapping[str, Any], path: Sequence[str]) -> Tree:
    """The tree without the setting at that path."""
    key, *rest = path
    if rest and isinstance(tree.get(key), Mapping):
        return {**tree, key: without(tree[key], rest)}
    return {name: value for name, value in tree.items() if name != key or rest}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its path."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def to_toml(tree: Mapping[str, Any]) -> str:
    """The tree as a TOML file: plain settings first, then the tables."""
    return "\n".join(_lines(tree, ())).strip() + "\n"


def _lines(tree: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    if path and (plain or not tree):
        yield f"\n[{'.'.join(path)}]"
    yield from (f"{key} = {to_toml_value(value)}" for key, value in plain.items() if value is not None)
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*path, key))


def to_toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON allows DEL, TOML does not
    return repr(value)
