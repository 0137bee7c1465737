"""The one typed schema: strict reading, overrides, filling, dumping."""

from weft.config.schema import (
    Config,
    UnknownName,
    difference,
    fill,
    networks,
    read_config,
    schema,
    unknown_task,
    validate,
)
from weft.config.template import template
from weft.config.tree import merge, parse_overrides, read_tree, to_toml

__all__ = [
    "Config",
    "UnknownName",
    "difference",
    "fill",
    "merge",
    "networks",
    "parse_overrides",
    "read_config",
    "read_tree",
    "schema",
    "template",
    "to_toml",
    "unknown_task",
    "validate",
]
