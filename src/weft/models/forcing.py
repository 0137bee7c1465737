"""Scheduled sampling: in training, a decoder reads the true tokens mixed with its own predictions.

Predictions have no gradient, so they are made first, and the training pass then reads the mixture at full speed.

in one pass    each prediction follows from the true tokens before it (transformers)
step by step   each prediction follows from the mixture before it (all others); on a GPU the steps run as CUDA graphs

B batch, T target length; packed, N tokens in all.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import torch
from torch import Tensor

from weft.models.embedding import Output
from weft.models.forcing_graph import mix_recorded, runs_plainly
from weft.models.forcing_steps import Unrecordable
from weft.models.memory import Decoder
from weft.nn import Packing
from weft.nn.slots import in_slots

POSITIONS_AT_ONCE: Final = 4096
"""Positions whose scores of the whole vocabulary are held in memory together."""


def mix(
    decoder: Decoder,
    output: Output,
    tokens: Tensor,
    memory: Any,
    lengths: Tensor | Packing | None = None,
    *,
    truth: float,
    free: Tensor | None = None,
) -> Tensor:
    """tokens (B, T), or packed (N) -> a mixture of the same shape. The first token of a row stays; each other one stays
    with probability `truth`, and is else the likeliest token by the model. Tokens outside the mask `free` stay too."""
    if truth >= 1:
        return tokens
    kept = torch.rand(tokens.shape, device=tokens.device) < truth
    kept = kept if free is None else kept | ~free
    with torch.no_grad():
        if decoder.mixes_in_one_pass:
            mixed = _mix_in_one_pass(decoder, output, tokens, memory, lengths, kept)
        else:
            mixed = _mix_step_by_step(decoder, output, tokens, memory, kept)
    # Some versions of torch would reuse weights that were cast here, without a gradient, in the training pass.
    torch.clear_autocast_cache()
    return mixed


def _mix_in_one_pass(
    decoder: Decoder, output: Output, tokens: Tensor, memory: Any, lengths: Tensor | Packing | None, kept: Tensor
) -> Tensor:
    hidden = decoder(tokens, memory, lengths)
    flat = hidden.reshape(-1, hidden.size(-1))
    chosen = torch.cat([output(part).argmax(-1) for part in torch.split(flat, POSITIONS_AT_ONCE)]).view_as(tokens)
    places = lengths.positions if isinstance(lengths, Packing) else torch.arange(tokens.size(1), device=tokens.device)
    return torch.where(kept | (places == 0), tokens, chosen.roll(1, dims=-1))


def _mix_step_by_step(decoder: Decoder, output: Output, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
    if not runs_plainly(decoder, output, tokens):
        try:
            return mix_recorded(decoder, output, tokens, memory, kept)
        except Unrecordable as reason:
            name = type(decoder).__name__
            warnings.warn(f"scheduled sampling steps through {name} in Python, more slowly: {reason}", stacklevel=2)
    return mix_in_a_loop(decoder, output, tokens, memory, kept)


def mix_in_a_loop(decoder: Decoder, output: Output, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
    """tokens (B, T), kept (B, T) -> the mixture, each prediction from the mixture before it."""
    # In slots a step reads what belongs to a sentence without a copy of it for each row.
    state = in_slots(decoder.start(memory, torch.arange(tokens.size(0), device=tokens.device)), 1)
    mixed = [tokens[:, 0]]
    for true, keep in zip(tokens.unbind(1)[1:], kept.unbind(1)[1:], strict=True):
        hidden, state, _ = decoder.step_without_attention(mixed[-1], state)
        mixed.append(torch.where(keep, true, output(hidden).argmax(-1)))
    return torch.stack(mixed, dim=1)
