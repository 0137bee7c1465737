"""The one typed schema: strict reading, overrides, filling, dumping."""

from weft.config.schema import Config, difference, fill, read_config, schema, validate
from weft.config.template import template
from weft.config.tree import merge, parse_overrides, read_tree, to_toml

__all__ = [
    "Config",
    "difference",
    "fill",
    "merge",
    "parse_overrides",
    "read_config",
    "read_tree",
    "schema",
    "template",
    "to_toml",
    "validate",
]
