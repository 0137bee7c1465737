"""The data of the training benchmark: rows of one length with random words, or the pairs of a file.

weft makes batches of similar lengths under a budget of tokens. The others get as many rows per batch as weft has on
average, in random order and padded to the longest, which is what their users do. So both have the same number of real
tokens per update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weft.bench.training.case import TrainingCase
from weft.data import BadLines, Batches, Capacity, Corpus, Examples, Ragged
from weft.errors import ConfigError
from weft.tasks import Codec, Translate, encode
from weft.tasks.pair_settings import PairData, PairText
from weft.tasks.pair_task import PairBatch
from weft.tasks.task import Rows
from weft.text import EOS, SOS, SPECIALS, TextConfig, Tokenizer

SEED: Final = 0


@dataclass
class Padding:
    """Counts the real tokens among all positions that a model computed."""

    real: int = 0
    positions: int = 0

    @property
    def share(self) -> float:
        return 1 - self.real / self.positions if self.positions else 0.0

    def add(self, tokens: Tensor, real: int) -> None:
        """Count tokens of any shape, `real` of which are not padding."""
        self.positions += tokens.numel()
        self.real += real


class CountedTranslate(Translate):
    """The task with a count of the padding in all batches that it makes."""

    def __init__(self, codec: Codec, data: PairData) -> None:
        super().__init__(codec, data)
        self.padding = Padding()

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> PairBatch:
        batch = super().collate(examples, rows, packed=packed, capacity=capacity)
        self.padding.add(batch.source, int(examples.columns["source"].lengths[np.asarray(rows)].sum()))
        self.padding.add(batch.target, batch.count)
        return batch


@dataclass(frozen=True)
class Sentences:
    """Encoded pairs, the task that makes their batches, weft's budget of tokens and the others' rows per batch."""

    task: CountedTranslate
    examples: Examples
    batch_tokens: int
    rows: int
    notes: tuple[str, ...] = ()

    @property
    def longest(self) -> int:
        """Tokens of the longest row, of either side."""
        return max(int(column.lengths.max()) for column in self.examples.columns.values())

    @property
    def uniform(self) -> bool:
        """Whether every batch has the same shape, so that nothing is padded."""
        return all(column.lengths.min() == column.lengths.max() for column in self.examples.columns.values())

    def random_rows(self) -> Iterator[NDArray[np.int64]]:
        """Yield the row numbers of the others' batches, epoch after epoch; an incomplete last batch is dropped."""
        for epoch in count():
            order = np.random.default_rng((SEED, epoch)).permutation(len(self.examples))
            yield from np.split(order, range(self.rows, len(order) + 1, self.rows))[:-1]


def build_sentences(case: TrainingCase) -> Sentences:
    """Read or draw the data of a case."""
    return read_sentences(case) if case.data else draw_sentences(case)


def draw_sentences(case: TrainingCase) -> Sentences:
    """Draw one batch of random words, `length` tokens in every source and target."""
    draw = np.random.default_rng(SEED)
    words = draw.integers(len(SPECIALS), case.words, (2, case.rows, case.length - 1))
    source, target = words.tolist()
    columns = {
        "source": Ragged.from_lists([*row, EOS] for row in source),
        "target": Ragged.from_lists([SOS, *row, EOS] for row in target),
    }
    # No text is tokenised, so the smallest tokenizer is enough.
    codec = Codec({"": Tokenizer.learn(["a"], TextConfig(kind="char", size=len(SPECIALS) + 257))})
    task = CountedTranslate(codec, PairData(train=""))
    costs = task.cost(columns)
    # With a budget for twice the rows an epoch is one batch, however the lengths are rounded.
    return Sentences(task, Examples(columns, costs), 2 * case.rows * int(costs.max()), case.rows)


def read_sentences(case: TrainingCase) -> Sentences:
    """Read the pairs of the case's files, in subwords learned from them; the budget is rows × length tokens."""
    paths = case.data[0] if len(case.data) == 1 else list(case.data)
    data = PairData(train=paths)
    corpus, _ = Corpus.survey(lambda: Translate.read(paths, data, BadLines()))
    try:
        codec = Translate.learn(corpus, PairText(kind="bpe", size=case.words, shared=True))
    except ConfigError as error:
        raise ConfigError(error.what, where="--words", cure=error.cure) from None
    task = CountedTranslate(codec, data)
    examples = encode(task, corpus, task.limit(training=True))
    learned, notes = len(codec.side("source")), list(examples.notes)
    if learned < case.words:
        notes.append(f"the text gave {learned:,} of {case.words:,} words; both models have all {case.words:,}")
    found = Sentences(task, examples, case.rows * case.length, 1, tuple(notes))
    batches = Batches(examples.lengths, batch_tokens=found.batch_tokens, seed=SEED).epoch(0)
    return replace(found, rows=max(1, round(len(examples) / len(batches))))
