"""The loss of word vectors on a text that they were not trained on.

skip-gram   the mean over all pairs of words w, c at most `window` apart of
            -log σ(v_w · u_c) + K · mean_m -log σ(-v_w · u_m)
CBOW        the mean over all words c, with the mean of the words near it in place of v_w

The mean over m estimates the expectation over the noise, always with the same words: those at equal steps of the
cumulative distribution. So the loss depends neither on chance nor on how rows are batched. K is `negatives`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.models.vectors.model import WordVectors
from weft.models.vectors.sampling import noise_shares

NOISE_WORDS: Final = 512
"""Words by which the expectation over the noise is estimated."""


def heldout_loss(model: WordVectors, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, int]:
    """tokens (B, T), lengths (B) -> the sum of the losses of all predictions, and their number."""
    size, window = tokens.shape, min(model.config.window, max(tokens.size(1) - 1, 0))
    real = torch.arange(size[1]) < lengths[:, None]
    sums, counts = (part.view(*size, part.size(1)) for part in model.sums(tokens.flatten()))
    outputs = model.outputs[tokens]
    if not model.config.cbow:
        total, pairs = torch.zeros(()), torch.zeros(size)
        vectors = sums / counts
        for apart in range(1, window + 1):
            both = real[:, apart:]
            for one, other in ((slice(apart, None), slice(None, -apart)), (slice(None, -apart), slice(apart, None))):
                scores = (vectors[:, one] * outputs[:, other]).sum(-1)
                total = total + F.softplus(-scores)[both].sum()
                pairs[:, one] += both
        return total + (pairs * noise_loss(model, vectors)).sum(), int(pairs.sum())
    around, parts = torch.zeros_like(sums), torch.zeros_like(counts, dtype=torch.float32)
    for apart in range(1, window + 1):
        both = real[:, apart:, None]
        around[:, apart:] += sums[:, :-apart] * both
        around[:, :-apart] += sums[:, apart:] * both
        parts[:, apart:] += counts[:, :-apart] * both
        parts[:, :-apart] += counts[:, apart:] * both
    near = real & (parts[..., 0] > 0)
    means = around / parts.clamp(min=1)
    scores = (means * outputs).sum(-1)
    return (F.softplus(-scores) + noise_loss(model, means))[near].sum(), int(near.sum())


def noise_loss(model: WordVectors, vectors: Tensor) -> Tensor:
    """vectors (B, T, D) -> K · mean_m -log σ(-v · u_m) of each (B, T)."""
    cumulative = np.cumsum(noise_shares(model.counts.numpy()))
    steps = (np.arange(NOISE_WORDS) + 0.5) / NOISE_WORDS
    words = torch.from_numpy(np.minimum(np.searchsorted(cumulative, steps), len(cumulative) - 1))
    return model.config.negatives * F.softplus(vectors @ model.outputs[words].T).mean(-1)
