"""An n-gram language model: the next token from the order - 1 before it, by tables of counted n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import Examples
from weft.models.fitting import Fit, FitOptions, FittedModel
from weft.models.ngram.config import NgramConfig
from weft.models.ngram.fit import NgramFit
from weft.models.ngram.lookup import SHORT, NgramTables, Rows
from weft.models.ngram.tables import NEVER, ZERO, OrderTable
from weft.models.stepper import Step
from weft.nn import State
from weft.nn.slots import first_of, spread

KEYS, LOGS, BACKOFFS = "keys", "log_probabilities", "backoffs"
"""The tensors of each order: the number of the order follows their name."""

MAX_KEY: Final = 2**62
"""All keys are below it, so that the end of a range of keys is a number too."""

MAX_LOG_BACKOFF: Final = 23.1
"""The largest natural logarithm of a backoff: more than e^23 times a probability would be more than certain."""


class NgramOutput:
    """Contexts -> log-probabilities: what the output layer is to a network."""

    def __init__(self, tables: NgramTables) -> None:
        self.tables = tables

    def __call__(self, nodes: Tensor) -> Tensor:
        """nodes (…, K) -> log-probabilities (…, V), which sum to one."""
        return self.tables.score_all(nodes.flatten(0, -2)).view(*nodes.shape[:-1], -1)

    def loss(self, nodes: Tensor, targets: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """nodes (M, K), targets (M,) -> the sum of -log P(target). Other words are not looked at."""
        assert label_smoothing == 0.0
        return -self.tables.score(nodes, targets).double().sum()


class NgramModel(FittedModel):
    """Tokens -> contexts -> log-probabilities of the next token; `start` and `step` do the same one token at a time.

    A context takes the place of a network's hidden state: a row of nodes (K,), where K is the order; see lookup.py.
    """

    longest = None
    can_prefill = True
    packs = follows = False

    def __init__(self, config: NgramConfig, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary, self.order = config, vocabulary, config.order
        self.can_be_infinite = config.smoothing.gives_zeros
        self._allocate([vocabulary] + [0] * (self.order - 1), torch.get_default_device())
        # Before anything is counted, all words are equally likely.
        never = torch.tensor([token for token in NEVER if token < vocabulary])
        self.get_parameter(f"{LOGS}1").fill_(self.tables.uniform).index_fill_(0, never, ZERO)

    def _allocate(self, sizes: Sequence[int], device: torch.device) -> None:
        """Allocate tables with so many n-grams of each order."""
        for order, size in enumerate(sizes, 1):
            names = [f"{LOGS}{order}", f"{BACKOFFS}{order}"] if order < self.order else [f"{LOGS}{order}"]
            for name in names:
                self.register_parameter(name, nn.Parameter(torch.zeros(size, device=device), requires_grad=False))
            if order > 1:
                self.register_buffer(f"{KEYS}{order}", torch.zeros(size, dtype=torch.int64, device=device))

    def set_tables(self, tables: Sequence[OrderTable]) -> None:
        """Take the tables of order 1 and up; higher orders become empty."""
        sizes = [len(table.log_probabilities) for table in tables]
        self._allocate(sizes + [0] * (self.order - len(sizes)), torch.device("cpu"))
        state = self.state_dict()
        for order, table in enumerate(tables, 1):
            for name, numbers in ((KEYS, table.keys), (LOGS, table.log_probabilities), (BACKOFFS, table.backoffs)):
                if f"{name}{order}" in state and len(numbers):
                    state[f"{name}{order}"].copy_(torch.from_numpy(np.ascontiguousarray(numbers)))

    @property
    def tables(self) -> NgramTables:
        """The tables as the functions of lookup.py read them."""
        state = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        empty = torch.zeros(0)
        orders = [
            Rows(*(state.get(f"{name}{order}", empty) for name in (KEYS, LOGS, BACKOFFS)))
            for order in range(1, self.order + 1)
        ]
        return NgramTables(orders, self.vocabulary, backs_off=self.config.smoothing.backs_off)

    @property
    def output(self) -> NgramOutput:
        """The part that scores the next token."""
        return NgramOutput(self.tables)

    def forward(self, tokens: Tensor, lengths: Any = None, *, truth: float = 1.0) -> Tensor:
        """tokens (B, T) -> contexts (B, T, K) after each token; anything stands past a row's end."""
        assert truth == 1.0
        return self.tables.read(tokens)

    def start(self, memory: None, rows: Tensor) -> State:
        """The contexts (N, K) before any token."""
        return torch.tensor([0] + [SHORT] * (self.order - 1)).repeat(rows.numel(), 1)

    def reserve(self, memory: None, sentences: Tensor, *, width: int, capacity: int) -> State:
        """`start` for `width` hypotheses of each sentence; contexts do not grow, so there is no capacity."""
        return self.start(memory, sentences.repeat_interleave(width))

    def step(self, tokens: Tensor, state: State, *, attention: bool = True) -> Step:
        """tokens (N,) -> log-probabilities (N, V) of the token after each."""
        tables = self.tables
        nodes = tables.follow(tokens, state)
        return Step(tables.score_all(nodes), nodes)

    def prefill(self, tokens: Tensor, lengths: Tensor, state: State, *, slots: Tensor, width: int) -> None:
        """Read prompts, tokens (n, P) and lengths (n,), into slots (n,) that have just begun."""
        nodes, tables = first_of(state, slots, width), self.tables
        for place in range(tokens.size(1)):
            read = tables.follow(tokens[:, place], nodes)
            nodes = torch.where((place < lengths)[:, None], read, nodes)
        spread(state, slots, nodes, width)

    def fit(self, examples: Examples, options: FitOptions) -> Fit:
        return NgramFit(self, examples)

    def allocate(self, shapes: Mapping[str, torch.Size]) -> None:
        wanted, sizes = self.state_dict(), [self.vocabulary]
        if set(shapes) != set(wanted) or any(len(shape) != 1 for shape in shapes.values()):
            raise ValueError(f"it has other tables than an n-gram model of order {self.order}")
        sizes = [shapes[f"{LOGS}{order}"][0] for order in range(1, self.order + 1)]
        if sizes[0] != self.vocabulary:
            raise ValueError(f"it has {sizes[0]:,} words, and the vocabulary {self.vocabulary:,}")
        for name, shape in shapes.items():
            order = int(name[-1])
            if shape[0] != sizes[order - 1]:
                raise ValueError(f"the tables of order {order} differ in size")
            if order > 1 and sizes[order - 2] * self.vocabulary >= MAX_KEY:
                raise ValueError("it has too many n-grams")
        self._allocate(sizes, next(iter(wanted.values())).device)

    def check(self) -> None:
        for order in range(2, self.order + 1):
            keys, contexts = self.get_buffer(f"{KEYS}{order}"), self.get_parameter(f"{LOGS}{order - 1}").numel()
            if not len(keys):
                continue
            if keys[0] < 0 or keys[-1] >= contexts * self.vocabulary or bool((keys[1:] <= keys[:-1]).any()):
                raise ValueError(f"the keys of the {order}-grams are not sorted, or out of range")
        for order in range(1, self.order + 1):
            logs = self.get_parameter(f"{LOGS}{order}")
            if bool((logs > 0).any()):
                raise ValueError(f"a probability of the {order}-grams is more than 1")
            weights = self.get_parameter(f"{BACKOFFS}{order}") if order < self.order else logs
            if bool((weights > (MAX_LOG_BACKOFF if self.config.smoothing.backs_off else 0.0)).any()):
                raise ValueError(f"a backoff of the {order}-grams is larger than that of any model")
