"""The battery: every hostile folder that weft must read or refuse, a line each."""

from __future__ import annotations

from tests.faults.hostile.rows import caches, checkpoints, config, counted, files, manifest, tokenizer, weights

ROWS = [
    *manifest.ROWS,
    *config.ROWS,
    *weights.ROWS,
    *counted.ROWS,
    *tokenizer.ROWS,
    *files.ROWS,
    *checkpoints.ROWS,
    *caches.ROWS,
]
