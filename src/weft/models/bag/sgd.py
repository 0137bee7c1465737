"""Stochastic gradient descent for a linear model of sparse rows, one row at a time; the C is in bag.c.

z = b + x W, or b + (x W) U with a width          g = softmax(z) - y          W ← W - η xᵀ g          x sparse (F)
With `many` labels at once g = σ(z) - y, for a number g = z - y.          η falls in a straight line
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.models.bag.native import LIBRARY, NativeUpdates
from weft.models.bag.ngrams import SparseRows


class Labels(NamedTuple):
    """The labels of texts: those of text i begin at `starts[i]`; a text has one, or with many labels any number.

    With `targets` each text has a number instead, and no label.
    """

    starts: NDArray[np.int64]
    numbers: NDArray[np.int64]
    targets: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class LinearUpdates:
    """The tensors that updates change, in place: weights (F, C), or (F, K) with the output (C, K). The bias (C) stays.

    `class_weights` (C) multiply the gradient of a text by the weight of its label. With `many` a text has any number of
    labels, and weights (2, C) multiply the gradients of those that are absent and of those that are present.
    """

    weights: Tensor
    output: Tensor | None
    bias: Tensor
    class_weights: Tensor | None = None
    many: bool = False

    def run(
        self,
        rows: SparseRows,
        labels: Labels,
        order: NDArray[np.int64],
        *,
        rates: tuple[float, float],
        threads: int,
    ) -> float:
        """Make one update for each row in this order; the rate falls from the first to the second. Returns the mean
        loss before the updates. With one thread the result is always the same."""
        if LIBRARY.load() is None:
            return self.run_plain(rows, labels, order, rates=rates)
        losses = torch.zeros(threads)
        starts, columns, values = map(torch.from_numpy, rows)
        updates = NativeUpdates(
            starts=starts,
            columns=columns,
            values=values,
            label_starts=torch.from_numpy(labels.starts),
            labels=torch.from_numpy(labels.numbers),
            targets=None if labels.targets is None else torch.from_numpy(labels.targets),
            order=torch.from_numpy(order),
            class_weights=self.class_weights,
            weights=self.weights,
            output=self.output,
            bias=self.bias,
            losses=losses,
            count=len(order),
            classes=len(self.bias),
            width=self.weights.size(1),
            tasks=threads,
            rate=float(rates[0]),
            last_rate=float(rates[1]),
            many=int(self.many),
        )
        LIBRARY.call("bag_update", updates)
        return float(losses.sum())

    def run_plain(
        self, rows: SparseRows, labels: Labels, order: NDArray[np.int64], *, rates: tuple[float, float]
    ) -> float:
        """The plain version of `run`, in one thread."""
        weights, bias = self.weights.numpy(), self.bias.numpy()
        output = None if self.output is None else self.output.numpy()
        total = 0.0
        for place, row in enumerate(order.tolist()):
            rate = np.float32(rates[0] + (rates[1] - rates[0]) * place / len(order))
            own = labels.numbers[labels.starts[row] : labels.starts[row + 1]]
            if self.class_weights is not None and not self.many:
                rate *= self.class_weights.numpy()[own[0]]
            part = slice(rows.starts[row], rows.starts[row + 1])
            columns, values = rows.columns[part], rows.values[part]
            h = values @ weights[columns]
            z = bias + (h if output is None else output @ h)
            if labels.targets is None:
                loss, g = self._residual(z, own)
            else:
                g = z - labels.targets[row]
                loss = float(g[0]) ** 2
            total += loss
            back = g
            if output is not None:
                back = g @ output
                output -= rate * np.outer(g, h)
            weights[columns] -= rate * np.outer(values, back)  # a row has each column once
        return total / max(1, len(order))

    def _residual(self, z: NDArray[np.float32], labels: NDArray[np.int64]) -> tuple[float, NDArray[np.float32]]:
        """The loss of a row, and its gradient by z."""
        if self.many:
            loss = float(np.logaddexp(0, z).sum() - z[labels].sum()) / len(z)
            g = 1 / (1 + np.exp(-z))
        else:
            highest = z.max()
            g = np.exp(z - highest)
            loss = float(np.log(g.sum()) + highest - z[labels[0]])
            g /= g.sum()
        g[labels] -= 1
        if self.many and self.class_weights is not None:
            absent, present = self.class_weights.numpy()
            present_labels = np.isin(np.arange(len(z)), labels)
            g *= np.where(present_labels, present, absent)
        return loss, g.astype(np.float32)
