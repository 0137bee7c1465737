"""Searches leave nothing behind."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

import pytest
import torch

from weft.decoding import Constraint, DecodeConfig, search
from weft.models import RecurrentLanguageConfig, build_language_model

STATISTICS = Path("/proc/self/statm")
REQUESTS = 10_000
THINGS, BYTES = 100, 6 * 2**20
"""How many more there may be afterwards: less than one thing for each of the 330 searches, less than their beams."""

SEARCHES = [
    DecodeConfig(beam=1, max_length=64),
    DecodeConfig(beam=3, max_length=64),
    DecodeConfig(beam=2, groups=2, max_length=64),
    DecodeConfig(sample=True, max_length=64),
]


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(STATISTICS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def things() -> int:
    """Tensors, lists and whatever else can hold others, and is still held."""
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.skipif(not STATISTICS.exists(), reason="the memory of a process is read from /proc")
def test_memory_does_not_grow_over_ten_thousand_requests() -> None:
    torch.manual_seed(0)
    model = build_language_model(RecurrentLanguageConfig(embedding=4, hidden=4, dropout=0.0), 12).eval()
    draw = random.Random(0)

    def ask(requests: int) -> None:
        """So many sentences, a few at a time, each with its own lengths."""
        asked = 0
        while asked < requests:
            count = draw.randint(1, 60)
            limits, prefixes = ([draw.randint(least, 5) for _ in range(count)] for least in (1, 0))
            search(
                model,
                None,
                count,
                draw.choice(SEARCHES),
                limits=limits,
                prefixes=[[5] * length for length in prefixes],
                constraints=draw.choice([None, [Constraint(forbid=((6, 7),))] * count]),
                attention=False,
            )
            asked += count

    ask(2000)
    before = things(), resident()
    ask(REQUESTS)
    assert things() - before[0] < THINGS
    assert resident() - before[1] < BYTES
