"""The most that weft accepts of a file or a setting. What is larger is refused before anything is built from it.

The limits are far above what anybody trains, and low enough that a refused run folder costs little memory and time.
"""

from __future__ import annotations

from typing import Final

MEGABYTE: Final = 1 << 20

SMALL_FILE: Final = 16 * MEGABYTE
"""Bytes of manifest.json, config.json, report.json, labels.json and the plain values of a checkpoint."""

TOKENIZER_FILE: Final = 64 * MEGABYTE
"""Bytes of a tokenizer's file; a vocabulary of a million pieces takes less."""

LIBRARY_FILE: Final = 64 * MEGABYTE
"""Bytes of a compiled library in the cache."""

NESTING: Final = 64
"""Tables and lists inside each other in JSON and TOML."""

DIGITS: Final = 40
"""Digits of a number in JSON and TOML."""

VOCABULARY: Final = 1 << 22
"""Entries of a tokenizer; its highest id is below it as well."""

LAYERS: Final = 1024
"""Layers of a model, heads of an attention, and whatever else is built that often."""

SIZE: Final = 1 << 17
"""Numbers in a layer: hidden units, embedding, width."""

LENGTH: Final = 1 << 20
"""Tokens of an input or an answer, and positions of a model."""

BEAM: Final = 4096
"""Hypotheses of a search, candidates of an answer."""
