"""The largest files and settings that weft accepts. Larger ones are refused before anything is built from them.

The limits are far above any real training, and low enough that a refused run folder costs little memory and time.
A name ends in its unit where it is not itself what is counted.
"""

from __future__ import annotations

from typing import Final

MEGABYTE: Final = 1 << 20

SMALL_FILE_BYTES: Final = 16 * MEGABYTE
"""Bytes of config.json, report.json, labels.json and the plain values of a checkpoint."""

CONFIG_FILE_BYTES: Final = MEGABYTE
"""Bytes of a configuration in TOML, whose parser is slow, and of a manifest.json."""

TOKENIZER_FILE_BYTES: Final = 64 * MEGABYTE
"""Bytes of a tokenizer's file; most vocabularies of a million pieces take less."""

TOKEN_CACHE_FILE_BYTES: Final = 1 << 30
"""Bytes of a JSON file in the cache of tokens, which may hold all texts held out for validation."""

JOURNAL_FILE_BYTES: Final = 256 * MEGABYTE
"""Bytes of the metrics.jsonl of a run, and of the trials.log of a sweep."""

JOURNAL_LINE_BYTES: Final = 1 << 16
"""Bytes of a line of a journal; weft writes a few hundred."""

JOURNAL_VALUES: Final = 1 << 22
"""Values in a whole journal, at least eight per line: half a million lines, or five million updates."""

STEP: Final = 1 << 53
"""The number of an update in a journal; charts use floats, which represent no larger integers exactly."""

TENSORS_FILE_BYTES: Final = 1 << 40
"""Bytes of a checkpoint's tensors; the weights of a run must have the size that its settings imply."""

TENSORS_HEADER_BYTES: Final = 64 * MEGABYTE
"""Bytes of the header of a checkpoint's tensors: names, types and shapes."""

DIMENSIONS: Final = 16
"""Dimensions of a stored tensor."""

VALUES: Final = 1 << 22
"""Values of a JSON or TOML document: strings, lists, tables and items; a quarter of them may have a key."""

PICTURE_FILE_BYTES: Final = 256 * MEGABYTE
"""Bytes of the file of a picture."""

PICTURE_PIXELS: Final = 100_000_000
"""Pixels of a picture: a small file may claim many more, each of which takes memory."""

PICTURE_SIDE: Final = 4096
"""Pixels of the side to which pictures are resized."""

GRAMMAR_FILE_BYTES: Final = 64 * MEGABYTE
"""Bytes of a grammar; half a million rules take less."""

TREEBANK_FILE_BYTES: Final = 4 << 30
"""Bytes of a file of bracketed trees, which is read as a stream."""

CHART_ITEMS: Final = 5_000_000
"""Items of a parser's chart, and branches of the forest of its trees; together they take up to two gigabytes."""

CHART_STEPS: Final = 4 * CHART_ITEMS
"""Steps of a parser that complete items; they grow with the third power of the words of an ambiguous sentence."""

LIBRARY_FILE_BYTES: Final = 64 * MEGABYTE
"""Bytes of a compiled library in the cache."""

NESTING_LEVELS: Final = 64
"""Depth of tables and lists in JSON and TOML."""

DIGITS: Final = 40
"""Digits of a number in JSON and TOML."""

VOCABULARY: Final = 1_000_000
"""Entries of a tokenizer; its ids are smaller than this."""

PIECES: Final = 1_500_000
"""Different prefixes of the pieces of a unigram vocabulary; the library uses 500 bytes for each."""

LAYERS: Final = 512
"""Layers of a model, heads of an attention, and other repeated parts."""

SIZE: Final = 1 << 17
"""Size of a layer: hidden units, embedding, width."""

NGRAM: Final = 15
"""Words or characters of an n-gram of a bag; these numbers distinguish the kinds of n-grams."""

BUCKETS: Final = 1 << 26
"""Buckets of hashed n-grams; a table of numbers for all of them is in memory."""

LENGTH_TOKENS: Final = 1 << 20
"""Tokens of an input or an answer, and positions of a model."""

NGRAM_ORDER: Final = 7
"""The highest order of an n-gram model: beyond it nearly every n-gram of a text is new."""

BEAM: Final = 4096
"""Hypotheses of a search, candidates of an answer."""

STOP_STRINGS: Final = 16
"""Strings at which a text stops."""

STOP_BYTES: Final = 256
"""Bytes of all these strings together; the search builds a table with a row for each."""

COUNT: Final = 10**12
"""Any other count: epochs, updates, examples, occurrences of a word."""

COPIES: Final = 1024
"""Models whose mean is taken."""

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
"""A real number: a rate, a norm, a bias, a temperature."""

TEMPERATURE: Final = 1e-9
"""The smallest temperature: divided by less, log-probabilities overflow."""

LENGTH_PENALTY: Final = 50.0
"""The exponent of a length: the longest text to a higher power overflows."""

WINDOW_WORDS: Final = 1000
"""Words on each side of a word that word vectors are learned from."""

NEGATIVE_WORDS: Final = 1000
"""Words of noise for each word that a vector is learned of."""
