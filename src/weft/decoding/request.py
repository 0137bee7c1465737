"""What is asked of a search, as tensors beside the model: limits, prefixes, and what may never be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.errors import ConfigError
from weft.models.stepper import Stepper
from weft.text import EOS, PAD


@dataclass(frozen=True, slots=True)
class Request:
    """C sentences. A prefix is forced inside the first steps, so that all rows stay at the same step of the model:
    sentence i generates from step prefix_lengths[i] on, for at most limits[i] steps."""

    config: DecodeConfig
    prefixes: Tensor
    """(C, P), padded."""
    prefix_lengths: Tensor
    """(C,)"""
    limits: Tensor
    """(C,)"""
    forbidden: Tensor
    """(F,)"""

    @property
    def count(self) -> int:
        """The number of sentences."""
        return self.limits.size(0)

    @property
    def device(self) -> torch.device:
        """Where tokens and scores live: beside the model."""
        return self.limits.device

    def forced(self, step: int, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """The prefix at this step: which sentences (A,) are still in theirs (A,), and their tokens (A,)."""
        inside = step < self.prefix_lengths[sentences]
        column = min(step, self.prefixes.size(1) - 1)
        return inside, self.prefixes[sentences, column]

    def lengths(self, step: int, sentences: Tensor) -> Tensor:
        """The length (A,) of what sentences (A,) have generated with the token of this step."""
        return step + 1 - self.prefix_lengths[sentences]

    def log_probabilities(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """logits (N, V), lengths (N,) with the coming token -> log-probabilities, -inf for what may not come.

        Nothing is renormalised: the numbers stay those that scoring the finished text would give.
        """
        result = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        result[:, self.forbidden] = -torch.inf
        result[:, EOS].masked_fill_(lengths <= self.config.min_length, -torch.inf)
        return result

    def scores(self, sums: Tensor, lengths: Tensor) -> Tensor:
        """sums of log-probabilities and lengths of one shape -> sum / length^α."""
        return sums / lengths.clamp(min=1).to(sums.dtype) ** self.config.length_penalty


def prepare(
    model: Stepper,
    count: int,
    config: DecodeConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None,
    limits: Sequence[int] | Tensor | None,
    forbid: Sequence[int],
) -> Request:
    """Check what was asked and move it beside the model."""
    prefixes = [()] * count if prefixes is None else prefixes
    ceilings = [config.max_length] * count if limits is None else [int(limit) for limit in limits]
    for name, given in (("prefixes", prefixes), ("limits", ceilings)):
        if len(given) != count:
            raise ConfigError(f"{len(given)} are given for {count} sentences", where=name, cure="one for each")
    if any(limit < 1 for limit in ceilings):
        raise ConfigError(f"a limit of {min(ceilings)} leaves no room for a token", where="limits", cure="at least 1")
    width = max((len(prefix) for prefix in prefixes), default=0) or 1
    padded = [[*prefix, *[PAD] * (width - len(prefix))] for prefix in prefixes]
    device = device_of(model)
    return Request(
        config=config,
        prefixes=torch.tensor(padded, dtype=torch.long, device=device).view(count, width),
        prefix_lengths=torch.tensor([len(prefix) for prefix in prefixes], dtype=torch.long, device=device),
        limits=torch.tensor(ceilings, dtype=torch.long, device=device).clamp(max=config.max_length),
        forbidden=torch.tensor(list(forbid), dtype=torch.long, device=device),
    )


def device_of(model: Stepper) -> torch.device:
    """The device of a network's parameters; a model without any counts on the CPU."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))
