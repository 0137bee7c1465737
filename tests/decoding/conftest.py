"""Small models to search in: one with probabilities by hand, one with random weights, a memory and attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.decoding import Step
from weft.nn import Shared, State
from weft.text import EOS

Table = Mapping[tuple[int, ...], Mapping[int, float]]


class TableModel:
    """P(next | tokens so far) read from a table; what is not in it is impossible. Its state is the text so far."""

    def __init__(self, table: Table, *, vocabulary: int) -> None:
        self.table, self.vocabulary = table, vocabulary
        self.rows_seen: list[int] = []

    def start(self, memory: Any, rows: Tensor) -> State:
        del memory
        return torch.zeros(len(rows), 0, dtype=torch.long)

    def step(self, tokens: Tensor, state: State) -> Step:
        self.rows_seen.append(len(tokens))
        state = torch.cat((state, tokens[:, None]), dim=1)
        logits = torch.full((len(tokens), self.vocabulary), -torch.inf)
        for row, (_sos, *said) in enumerate(state.tolist()):
            for token, probability in self.table.get(tuple(said), {EOS: 1.0}).items():
                logits[row, token] = math.log(probability)
        return Step(logits, state)


class RandomModel(nn.Module):
    """A recurrent network over the tokens with random weights, a memory for each sentence and attention to it."""

    def __init__(self, *, vocabulary: int, sentences: int, seed: int, sharpness: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.memory = torch.randn(sentences, 3, 6, dtype=torch.float64)
        self.embed = nn.Embedding(vocabulary, 6, dtype=torch.float64)
        self.mix = nn.Linear(12, 6, dtype=torch.float64)
        self.out = nn.Linear(12, vocabulary, dtype=torch.float64)
        self.sharpness = sharpness

    def start(self, memory: Tensor, rows: Tensor) -> State:
        return memory.new_zeros(len(rows), 6), Shared(memory, rows)

    def step(self, tokens: Tensor, state: State) -> Step:
        h, memory = state
        h = torch.tanh(self.mix(torch.cat((h, self.embed(tokens)), -1)))
        keys = memory.expand()
        weights = (keys @ h[..., None]).squeeze(-1).softmax(-1)
        context = (weights[:, None] @ keys).squeeze(1)
        return Step(self.sharpness * self.out(torch.cat((h, context), -1)), (h, memory), weights)


@pytest.fixture
def table_model() -> Callable[..., TableModel]:
    return TableModel


@pytest.fixture
def random_model() -> Callable[..., RandomModel]:
    def build(*, vocabulary: int = 8, sentences: int = 3, seed: int = 0, sharpness: float = 2.0) -> RandomModel:
        return RandomModel(vocabulary=vocabulary, sentences=sentences, seed=seed, sharpness=sharpness).eval()

    return build
