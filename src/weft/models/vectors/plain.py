"""Training of word vectors in Python, one centre at a time: the algorithm that train.c runs, with its random numbers.

One centre has m inputs X (m, D) and n outputs O (n, D):

    G = rate · weight · (label - σ(X Oᵀ)),   X += G O,   O += Gᵀ X          both from the values before

skip-gram             X the words near the centre,     O the centre (label 1) and the noise (label 0)
CBOW                  X the mean of those words,       O the same; X's change is added to each of them
skip-gram, n-grams    X the centre as the mean of its parts, O the words near it and the noise, weighted by their number
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.models.vectors.fit import MIN_RATE_SHARE, TextPart, VectorFit
from weft.models.vectors.sampling import Random


class Centre(NamedTuple):
    """The words around a centre, the outputs with the true ones first, and the number of true ones."""

    near: list[int]
    outputs: list[int]
    positives: int


def train_plain(fit: VectorFit, part: TextPart) -> tuple[float, int]:
    """Train on a part; returns the sum of the losses of all pairs, and their number."""
    loss, count = 0.0, 0
    for task in range(len(part.tasks) - 1):
        random = Random(part.seed, task)
        for row in range(int(part.tasks[task]), int(part.tasks[task + 1])):
            begin, end = int(part.starts[row]), int(part.starts[row + 1])
            rate = fit.options.rate * max(MIN_RATE_SHARE, 1 - (part.done + begin) / fit.all_tokens)
            sentence = subsample(fit, part.tokens[begin:end].tolist(), random)
            for place in range(len(sentence)) if len(sentence) > 1 else ():
                centre = draw_centre(fit, sentence, place, random)
                loss += train_centre(fit, sentence[place], centre, rate)
                count += centre.positives * (1 if composed(fit) else len(centre.near))
    return loss, count


def composed(fit: VectorFit) -> bool:
    """Whether a centre has one input, the mean of several rows."""
    return fit.model.config.cbow or fit.parts is not None


def subsample(fit: VectorFit, words: list[int], random: Random) -> list[int]:
    """The words that are kept."""
    return [word for word in words if fit.keep[word] >= 1.0 or random.unit() < fit.keep[word]]


def draw_centre(fit: VectorFit, sentence: list[int], place: int, random: Random) -> Centre:
    """Draw the window of a word and its noise; words of the noise that are true outputs are left out."""
    config = fit.model.config
    reach = 1 + random.below(config.window)
    near = sentence[max(0, place - reach) : place] + sentence[place + 1 : place + 1 + reach]
    true = near if fit.parts is not None and not fit.model.config.cbow else [sentence[place]]
    noise = [random.draw(fit.noise) for _ in range(config.negatives)]
    return Centre(near, [*true, *(word for word in noise if word not in true)], len(true))


@torch.no_grad()
def train_centre(fit: VectorFit, word: int, centre: Centre, rate: float) -> float:
    """Update the vectors for one centre; returns the sum of its losses before."""
    model, positives = fit.model, centre.positives
    outputs = torch.tensor(centre.outputs)
    weight = torch.ones(len(outputs))
    if fit.parts is not None and not model.config.cbow:
        weight[positives:] = positives
    label = (torch.arange(len(outputs)) < positives).float()
    if composed(fit):
        rows = torch.tensor(
            [row for source in (centre.near if model.config.cbow else [word]) for row in parts_of(fit, source)]
        )
        x = model.inputs[rows].mean(0, keepdim=True)
    else:
        rows = torch.tensor(centre.near)
        x = model.inputs[rows]
    o = model.outputs[outputs]
    scores = x @ o.T
    g = rate * weight * (label - scores.sigmoid())
    change: Tensor = g @ o
    model.inputs.index_add_(0, rows, change.expand(len(rows), -1))
    model.outputs.index_add_(0, outputs, g.T @ x)
    return float((weight * F.softplus(torch.where(label > 0, -scores, scores))).sum())


def parts_of(fit: VectorFit, word: int) -> list[int]:
    """The rows of `inputs` whose mean is the vector of a word."""
    if fit.parts is None:
        return [word]
    starts, rows = fit.parts
    found: list[int] = rows[starts[word] : starts[word + 1]].tolist()
    return found
