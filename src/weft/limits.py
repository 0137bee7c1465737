"""The most that weft accepts of a file or a setting. What is larger is refused before anything is built from it.

The limits are far above what anybody trains, and low enough that a refused run folder costs little memory and time.
"""

from __future__ import annotations

from typing import Final

MEGABYTE: Final = 1 << 20

SMALL_FILE: Final = 16 * MEGABYTE
"""Bytes of config.json, report.json, labels.json and the plain values of a checkpoint."""

CONFIG_FILE: Final = MEGABYTE
"""Bytes of a configuration in TOML, whose parser is slow, and of a manifest.json."""

TOKENIZER_FILE: Final = 64 * MEGABYTE
"""Bytes of a tokenizer's file; most vocabularies of a million pieces take less."""

KEPT_FILE: Final = 1 << 30
"""Bytes of a JSON file in the cache of tokens, which may hold all the texts that were set aside for validation."""

JOURNAL_FILE: Final = 256 * MEGABYTE
"""Bytes of the metrics.jsonl of a run, and of the trials.log of a sweep."""

JOURNAL_LINE: Final = 1 << 16
"""Bytes of a line of it; weft writes a few hundred."""

JOURNAL_VALUES: Final = 1 << 22
"""Values of all its lines, where no line counts for less than eight: half a million lines, or five million updates."""

STEP: Final = 1 << 53
"""The number of an update in it; charts count with real numbers, and these hold no larger ones exactly."""

TENSORS_FILE: Final = 1 << 40
"""Bytes of a file of a checkpoint's tensors; the weights of a run may have no more bytes than its settings ask for."""

TENSORS_HEAD: Final = 64 * MEGABYTE
"""Bytes of the names, types and shapes before the tensors of a checkpoint; a run has those of its settings."""

DIMENSIONS: Final = 16
"""Dimensions of a stored tensor."""

VALUES: Final = 1 << 22
"""Strings, and lists, tables and their items, of a JSON or TOML document; a quarter of them may have a key."""

LIBRARY_FILE: Final = 64 * MEGABYTE
"""Bytes of a compiled library in the cache."""

NESTING: Final = 64
"""Tables and lists inside each other in JSON and TOML."""

DIGITS: Final = 40
"""Digits of a number in JSON and TOML."""

VOCABULARY: Final = 1_000_000
"""Entries of a tokenizer; its highest id is below it as well."""

PIECES: Final = 1_500_000
"""Different beginnings of the pieces of a unigram vocabulary; the library keeps a table of 500 bytes for each."""

LAYERS: Final = 512
"""Layers of a model, heads of an attention, and whatever else is built that often."""

SIZE: Final = 1 << 17
"""Numbers in a layer: hidden units, embedding, width."""

LENGTH: Final = 1 << 20
"""Tokens of an input or an answer, and positions of a model."""

BEAM: Final = 4096
"""Hypotheses of a search, candidates of an answer."""

COUNT: Final = 10**12
"""Whatever is only counted: epochs, updates, examples, times that a word is seen."""

COPIES: Final = 1024
"""Models that are kept beside each other for their mean."""

BATCH_TOKENS: Final = 1 << 26
"""Tokens of a batch."""

ACCUMULATE: Final = 1 << 20
"""Batches of an update."""

COLUMN: Final = 1 << 16
"""The number of a column of a table."""

THREADS: Final = 1024
"""Processor threads; the largest machines have fewer cores."""

SEED: Final = (1 << 64) - 1
"""The largest seed that torch takes."""

NUMBER: Final = 1e9
"""A real number that stands for no count: a rate, a norm, a bias, a temperature."""

TEMPERATURE: Final = 1e-9
"""What a temperature must be above: divided by less, log-probabilities are no numbers any more."""

LENGTH_PENALTY: Final = 50.0
"""The exponent of a length. The longest text to a higher power is no number that a computer has."""
