"""Truncated backpropagation through time: running text read in order, the state carried over, its history cut off.

    text       a b c d e f g h i j k l        two streams of two steps at a time
    streams    a b c d e f | g h i j k l      batches   ab, gh → cd, ij → ef, kl

The gradient of a batch ends at its first step; what the model remembers does not, until the epoch ends.
B streams, T = `truncate` steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weft.data import Examples
from weft.errors import ConfigError
from weft.models import LanguageModel
from weft.nn import State, detach, leaves_of
from weft.nn.state import with_leaves
from weft.tasks import LanguageModelling, Loss, Task, Tree
from weft.tasks.lm import TextBatch
from weft.tasks.shift import token_loss


@dataclass(frozen=True)
class StreamBatch(TextBatch):
    """The next T tokens of every stream, (B, T); `first` where they begin an epoch, and nothing comes before them."""

    first: bool


class Streams:
    """The training text cut into streams of one length, which are read side by side, `truncate` steps at a time.

    There are as many streams as fit into `batch_tokens`. Up to B - 1 tokens at the end of the text are left out.
    """

    def __init__(self, examples: Examples, *, batch_tokens: int, truncate: int) -> None:
        if "tokens" not in examples.columns:
            raise no_running_text(truncate)
        self.column, self.truncate = examples.columns["tokens"], truncate
        # The last token of a row is only expected. Cut from one text, rows overlap by it.
        self.ends = np.cumsum(np.maximum(self.column.lengths - 1, 0), dtype=np.int64)
        total = int(self.ends[-1])
        self.count = max(1, min(batch_tokens // truncate, total))
        self.length = total // self.count

    def epoch(self, number: int) -> range:
        """The batches of an epoch: always the same ones, in the order of the text."""
        return range(-(-self.length // self.truncate))

    def collate(self, number: int) -> StreamBatch:
        """The batch of that number."""
        begin = number * self.truncate
        steps = np.arange(begin, min(begin + self.truncate, self.length))
        rows = [self._read(stream * self.length + steps) for stream in range(self.count)]
        tokens, expected = (torch.from_numpy(np.stack(side)) for side in zip(*rows, strict=True))
        lengths = torch.full((self.count,), len(steps))
        return StreamBatch(tokens.numel(), tokens, lengths, expected.flatten(), None, 0, first=number == 0)

    def _read(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What is read at these places (T) of the text and what is expected there."""
        at = places + np.searchsorted(self.ends, places, side="right")  # each row before has one token more
        found = self.column.flat(int(at[0]), int(at[-1]) + 2).astype(np.int64)
        return found[at - at[0]], found[at - at[0] + 1]


class Carry:
    """A language model's task whose model goes on from the state that the batch before left behind."""

    def __init__(self, task: Task, model: nn.Module, *, truncate: int) -> None:
        if not isinstance(task, LanguageModelling) or task.data.unit != "stream":
            raise no_running_text(truncate)
        if not isinstance(model, LanguageModel) or not model.follows:
            raise ConfigError(
                "needs a model with a recurrent state to carry over",
                where=f"train.truncate = {truncate}",
                cure='use model.kind = "rnn", or remove it',
            )
        self.carried: State = None
        self._restored: list[torch.Tensor] = []

    def loss(self, model: nn.Module, batch: StreamBatch, *, label_smoothing: float = 0.0) -> Loss:
        assert isinstance(model, LanguageModel)
        if self._restored:
            rows = torch.arange(batch.tokens.size(0), device=batch.tokens.device)
            leaves = [leaf.to(rows.device) for leaf in self._restored]
            self.carried, self._restored = with_leaves(model.start(None, rows), leaves), []
        hidden, state = model.follow(batch.tokens, None if batch.first else self.carried)
        self.carried = detach(state)
        return token_loss(model, hidden, batch, label_smoothing=label_smoothing)

    def state(self) -> Tree:
        """The tensors of the carried state; which of them is what, the model knows."""
        return {"leaves": self._restored or leaves_of(self.carried)}

    def restore(self, state: Tree) -> None:
        self.carried, self._restored = None, list(state["leaves"])


def no_running_text(truncate: int) -> ConfigError:
    return ConfigError(
        "needs one running text to read on in",
        where=f"train.truncate = {truncate}",
        cure='use task = "lm" with data.unit = "stream", or remove it',
    )
