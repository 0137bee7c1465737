"""What a decoder reads while it learns: the true tokens, or in part what it would have written itself (L2).

A choice has no gradient, so it is made first, and the pass that learns then reads the mixture at full speed.

recurrent      token by token: each choice follows from the mixture before it
transformer    all at once: each choice follows from the true tokens before it

B batch, T target length; packed, N tokens in all.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from weft.models.embedding import Output
from weft.models.memory import Decoder
from weft.models.transformer import TransformerDecoder
from weft.nn import Packing

CHUNK: Final = 4096
"""Positions whose scores of the whole vocabulary are held at a time."""


def mix(
    decoder: Decoder,
    output: Output,
    tokens: Tensor,
    memory: Any,
    lengths: Tensor | Packing | None = None,
    *,
    truth: float,
) -> Tensor:
    """tokens (B, T), or packed (N) -> the same, but after a row's first each is true only with probability `truth`.

    Else it is the likeliest token by the model.
    """
    if truth >= 1:
        return tokens
    kept = torch.rand(tokens.shape, device=tokens.device) < truth
    with torch.no_grad():
        if isinstance(decoder, TransformerDecoder):
            mixed = _at_once(decoder, output, tokens, memory, lengths, kept)
        else:
            mixed = _in_turn(decoder, output, tokens, memory, kept)
    # Some versions of torch would use weights that were cast here, without a gradient, in the pass that learns too.
    torch.clear_autocast_cache()
    return mixed


def _at_once(
    decoder: Decoder, output: Output, tokens: Tensor, memory: Any, lengths: Tensor | Packing | None, kept: Tensor
) -> Tensor:
    hidden = decoder(tokens, memory, lengths)
    flat = hidden.reshape(-1, hidden.size(-1))
    chosen = torch.cat([output(part).argmax(-1) for part in torch.split(flat, CHUNK)]).view_as(tokens)
    places = lengths.positions if isinstance(lengths, Packing) else torch.arange(tokens.size(1), device=tokens.device)
    return torch.where(kept | (places == 0), tokens, chosen.roll(1, dims=-1))


def _in_turn(decoder: Decoder, output: Output, tokens: Tensor, memory: Any, kept: Tensor) -> Tensor:
    state = decoder.start(memory, torch.arange(tokens.size(0), device=tokens.device))
    mixed = [tokens[:, 0]]
    for true, keep in zip(tokens.unbind(1)[1:], kept.unbind(1)[1:], strict=True):
        hidden, state, _ = decoder.step(mixed[-1], state)
        mixed.append(torch.where(keep, true, output(hidden).argmax(-1)))
    return torch.stack(mixed, dim=1)
