"""Truncated backpropagation through time: running text is read in order, the state carried over, its gradient cut.

    text       a b c d e f g h i j k l        two streams of two steps at a time
    streams    a b c d e f | g h i j k l      batches   ab, gh → cd, ij → ef, kl

The gradient of a batch ends at its first step; the state is carried on until the epoch ends. Texts that are no running
text are laid one after another in the same streams; the state begins anew with each, so that none sees another:

    texts      <s> a b </s>  <s> c </s>  <s> d e f </s>
    read       <s> a b <s> c <s> d e f                  expected  a b </s> c </s> d e f </s>

B streams in a batch, T = `truncate` steps. An update of A batches reads the next T steps of A · B streams, as one batch
A times as large would. Each batch has streams of its own, so that each of several processes carries its own states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data import Examples
from weft.data.corpus import TOKENS
from weft.errors import ConfigError, RunError
from weft.models import LanguageModel
from weft.nn import State, detach, leaves_of
from weft.nn.state import map_state, with_leaves
from weft.tasks import Loss, Task, Tree
from weft.tasks.lm import TextBatch
from weft.tasks.shift import token_loss
from weft.text import SOS
from weft.training.ranks import Ranks


@dataclass(frozen=True)
class StreamBatch(TextBatch):
    """The next T tokens of B streams, (B, T); `part` numbers those streams, `first` marks the start of an epoch."""

    part: int
    first: bool


class Streams:
    """A text cut into streams of equal length, which are read side by side, `truncate` steps at a time.

    A batch has as many streams as fit into `batch_tokens`, and `parts` such batches are read side by side. Up to
    A · B - 1 tokens at the end of the text are left out; with `whole` none are, and some streams are one step longer.
    With a `seed` every epoch begins at another position of the text and continues from its end to its beginning, so
    that the cuts and the tokens left out differ between epochs.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_tokens: int,
        truncate: int,
        parts: int = 1,
        whole: bool = False,
        seed: int | None = None,
    ) -> None:
        if TOKENS not in examples.columns:
            raise no_running_text(truncate)
        self.column = examples.columns[TOKENS] if examples.pieces is None else examples.pieces.text
        self.truncate, self.parts, self.seed = truncate, parts, seed
        # The last token of a row is only predicted. Rows cut from one text overlap by it.
        self.ends = np.cumsum(np.maximum(self.column.lengths - 1, 0), dtype=np.int64)
        self.total = total = int(self.ends[-1])
        self.count = max(1, min(batch_tokens // truncate, total // parts))
        streams = self.count * parts
        self.bounds = np.arange(streams + 1) * (total if whole else total - total % streams) // streams
        self.length = int(np.diff(self.bounds).max())
        self.batches = -(-self.length // self.truncate) * parts

    def epoch(self, number: int) -> range:
        """The numbers of the batches of an epoch, in the order of the text; they continue from epoch to epoch."""
        return range(number * self.batches, (number + 1) * self.batches)

    def begin(self, epoch: int) -> int:
        """The position of the text at which an epoch begins."""
        return 0 if self.seed is None else int(np.random.default_rng((self.seed, epoch)).integers(self.total))

    def collate(self, number: int) -> StreamBatch:
        """Build the batch of that number."""
        epoch, within = divmod(number, self.batches)
        piece, part = divmod(within, self.parts)
        mine = np.arange(part * self.count, (part + 1) * self.count)
        begin = self.bounds[mine] + piece * self.truncate
        lengths = np.minimum(self.bounds[mine + 1] - begin, self.truncate)
        begin += self.begin(epoch)
        real = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.zeros(real.shape, dtype=np.int64)
        read = [self._read(np.arange(start, start + size)) for start, size in zip(begin, lengths, strict=True)]
        tokens[real], expected = (np.concatenate(side) for side in zip(*read, strict=True))
        return StreamBatch(
            len(expected),
            torch.from_numpy(tokens),
            torch.from_numpy(lengths),
            torch.from_numpy(expected),
            None if real.all() else torch.from_numpy(np.flatnonzero(real)),
            0,
            part=part,
            first=piece == 0,
        )

    def _read(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the tokens at consecutive positions (T) and the token after each; the text is read as a circle."""
        places = places % self.total
        at = places + np.searchsorted(self.ends, places, side="right")  # each earlier row has one token more
        if not len(at):
            return at, at
        wrap = int(places.argmin())
        parts = [part for part in (at[:wrap], at[wrap:]) if len(part)]
        tokens = [
            (part - part[0], self.column.flat(int(part[0]), int(part[-1]) + 2).astype(np.int64)) for part in parts
        ]
        read = np.concatenate([found[where] for where, found in tokens])
        return read, np.concatenate([found[where + 1] for where, found in tokens])


class Carry:
    """The objective of a language model that starts each batch from the final state of the batch before."""

    def __init__(self, task: Task, model: nn.Module, *, truncate: int) -> None:
        if not task.data.in_a_row:
            raise no_running_text(truncate)
        if not isinstance(model, LanguageModel) or not model.follows:
            raise ConfigError(
                "needs a model with a recurrent state to carry over",
                where=f"train.truncate = {truncate}",
                cure='use model.kind = "rnn", or remove it',
            )
        self.apart = not task.data.running
        """Whether a text must not see the one before it."""
        self.carried: State = None
        self._restored: list[Tensor] = []

    def loss(self, model: nn.Module, batch: StreamBatch, *, label_smoothing: float = 0.0) -> Loss:
        assert isinstance(model, LanguageModel)
        carried = list(self.carried or ())
        carried += [None] * (batch.part + 1 - len(carried))
        before = None if batch.first else carried[batch.part]
        if before is None and not batch.first:
            before = self._restore(model, batch)
        resets = batch.tokens == SOS if self.apart else None
        hidden, state = model.follow(batch.tokens, before, resets)
        carried[batch.part] = detach(state)
        self.carried = tuple(carried)
        return token_loss(model, hidden, batch, label_smoothing=label_smoothing)

    def _restore(self, model: LanguageModel, batch: StreamBatch) -> State:
        """Return the state of these streams from a checkpoint; None without one."""
        if not self._restored:
            return None
        rows = torch.arange(batch.tokens.size(0), device=batch.tokens.device)
        leaves = [leaf.to(rows.device)[batch.part * len(rows) :][: len(rows)] for leaf in self._restored]
        training = model.training
        model.eval()  # in training a start may draw random numbers, which the unbroken run has not drawn
        start = model.start(None, rows)
        model.train(training)
        # The kernels assume the sizes of the model and do not check them.
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in leaves_of(start)]:
            raise RunError("the state that a checkpoint carries over is not of this model", cure="train again")
        return with_leaves(start, leaves)

    def collect(self, ranks: Ranks, *, parts: int) -> None:
        """Give every rank the states of all parts; each rank carries its own share of them."""
        if ranks.size == 1 or self.carried is None:
            return
        mine = ranks.share(range(parts))
        nothing = map_state(torch.zeros_like, self.carried[mine[0]])
        carried = [self.carried[part] if part in mine else nothing for part in range(parts)]
        self.carried = tuple(map_state(lambda leaf: ranks.sum(leaf.clone()), state) for state in carried)

    def state(self) -> Tree:
        """The tensors of the carried states of all streams, in the order of the model's state."""
        if self.carried is None:
            return {"leaves": self._restored}
        parts = [leaves_of(state) for state in self.carried]
        return {"leaves": [torch.cat(leaves) for leaves in zip(*parts, strict=True)]}

    def restore(self, state: Tree) -> None:
        self.carried, self._restored = None, list(state["leaves"])


def no_running_text(truncate: int) -> ConfigError:
    return ConfigError(
        "needs texts to read on in",
        where=f"train.truncate = {truncate}",
        cure='use task = "lm", or remove it',
    )
