"""Writing one token after another, never looking back: what greedy search and sampling share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weft.decoding.request import Request
from weft.decoding.trail import End, Trail, Written
from weft.models.stepper import Stepper
from weft.nn.state import select_rows
from weft.text import EOS, SOS

Choose = Callable[[Tensor, Tensor, Tensor], Tensor]
"""log-probabilities (N, V), the text (N,) that each row writes, its length (N,) with this token -> tokens (N,)."""


def follow(
    model: Stepper, memory: Any, request: Request, *, choose: Choose, copies: int = 1
) -> tuple[Trail, list[End]]:
    """`copies` texts for each sentence; text i belongs to sentence i // copies. A finished one leaves the batch."""
    texts = torch.arange(request.count * copies, device=request.device)
    state = model.start(memory, texts // copies)
    tokens, origins = torch.full_like(texts, SOS), texts
    trail, ends, step = Trail(), list[End](), 0
    while texts.numel():
        logits, state, attention = model.step(tokens, state)
        sentences = texts // copies
        lengths = request.lengths(step, sentences)
        every = request.log_probabilities(logits, lengths)
        inside, prefix = request.forced(step, sentences)
        tokens = torch.where(inside, prefix, choose(every, texts, lengths))
        chosen = every.gather(1, tokens[:, None]).squeeze(1)
        rows = torch.arange(texts.numel(), device=texts.device)
        trail.add(Written(tokens, chosen, rows, origins, attention))

        ended = (tokens == EOS) & ~inside
        # Where nothing may follow, as in an unsmoothed count model, the text leads nowhere and is given up.
        lost = (chosen == -torch.inf) & ~inside
        stops = ended | lost | (lengths >= request.limits[sentences])
        done = (stops & ~lost).nonzero().squeeze(1)
        parts = (sentences[done].tolist(), done.tolist(), ended[done].tolist())
        ends += [End(number, step, row, finished) for number, row, finished in zip(*parts, strict=True)]
        origins = (~stops).nonzero().squeeze(1)
        texts, tokens, state = texts[origins], tokens[origins], select_rows(state, origins)
        step += 1
    return trail, ends
