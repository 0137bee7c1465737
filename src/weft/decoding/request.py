"""What is asked of a search, as tensors beside the model: limits, prefixes, and what may never be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint, Ruled, compile_rules
from weft.decoding.memory import check_memory
from weft.errors import ConfigError, DataError
from weft.models.stepper import Stepper
from weft.text import EOS, PAD, SOS


@dataclass(frozen=True, slots=True)
class Request:
    """C sentences. What a text is made to begin with is read by the model at once, as a prompt, before the first step;
    a model that cannot do so follows it as a prefix, which is forced inside the first steps: sentence i generates from
    step prefix_lengths[i] on, for at most limits[i] steps."""

    config: DecodeConfig
    numbers: Tensor
    """(C, 3 + P): of each sentence what the properties below are."""
    forbidden: Tensor
    """(F,)"""
    prompts: list[list[int]]
    """What the model reads of each sentence before its first step; known here, to ask the device would be to wait."""
    steps: list[int]
    """The most steps of each sentence, those of its prefix among them; known here likewise."""
    follows: bool
    """Whether some sentence has a prefix."""
    never: tuple[int, ...]
    """The forbidden ones likewise."""
    uniforms: Tensor | None
    """(C, n_best, longest limit) when tokens are drawn: numbers of each text's own, in [0, 1)."""
    rules: tuple[Ruled, ...] | None = None
    """Phrases that each sentence may not and must contain, where anybody asks for some."""

    @property
    def prefix_lengths(self) -> Tensor:
        """(C,)"""
        return self.numbers[:, 0]

    @property
    def limits(self) -> Tensor:
        """(C,)"""
        return self.numbers[:, 1]

    @property
    def begins(self) -> Tensor:
        """(C,) the token that each sentence reads first: sos, or the last of its prompt."""
        return self.numbers[:, 2]

    @property
    def prefixes(self) -> Tensor:
        """(C, P), padded."""
        return self.numbers[:, 3:]

    @property
    def count(self) -> int:
        """The number of sentences."""
        return self.numbers.size(0)

    @property
    def device(self) -> torch.device:
        """Where tokens and scores live: beside the model."""
        return self.numbers.device

    @property
    def width(self) -> int:
        """Hypotheses of a slot: of each sentence, or of each of its groups."""
        return self.config.width

    @property
    def recordable(self) -> bool:
        """Whether a step asks nothing of the device: only then can it be recorded."""
        return self.rules is None

    @property
    def single(self) -> bool:
        """Whether besides no slot needs its neighbours."""
        return self.recordable and self.config.groups == 1

    @property
    def plain(self) -> bool:
        """Whether it is beam search as the kernels know it."""
        return self.single and self.config.stop == "bound"

    @property
    def by_bound(self) -> bool:
        """Whether a sentence stops by the bound on its scores; greedy search stops at its first end."""
        return self.config.stop == "bound" and self.width > 1

    @property
    def requires(self) -> bool:
        """Whether some sentence has something that it must say."""
        return any(one.rules.constraint.require for one in self.rules or ())

    @property
    def room(self) -> int:
        """The most tokens that the model reads of a sentence."""
        return max(len(prompt) + steps for prompt, steps in zip(self.prompts, self.steps, strict=True))

    def log_probabilities(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """logits (N, V), lengths (N,) with the coming token -> log-probabilities, -inf for what may not come.

        Nothing is renormalised: the numbers stay those that scoring the finished text would give.
        """
        result = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        result.index_fill_(1, self.forbidden, -torch.inf)
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
    keys: Sequence[int] | None = None,
    constraints: Sequence[Constraint] | None = None,
    can_prefill: bool = False,
) -> Request:
    """Check what was asked and move it beside the model, which can, or cannot, have read prompts at once."""
    prefixes = [()] * count if prefixes is None else prefixes
    ceilings = [config.max_length] * count if limits is None else [int(limit) for limit in limits]
    keys = range(count) if keys is None else keys
    named = {"prefixes": prefixes, "limits": ceilings, "keys": keys, "constraints": constraints}
    for name, given in named.items():
        if given is not None and len(given) != count:
            raise ConfigError(f"{len(given)} are given for {count} sentences", where=name, cure="one for each")
    if any(limit < 1 for limit in ceilings):
        raise ConfigError(f"a limit of {min(ceilings)} leaves no room for a token", where="limits", cure="at least 1")
    ceilings = _within(getattr(model, "longest", None), prefixes, [min(limit, config.max_length) for limit in ceilings])
    _check_required(config, constraints or ())
    rules = compile_rules(constraints, prefixes)
    read = [[SOS, *prefix] if can_prefill else [SOS] for prefix in prefixes]
    prefixes = [()] * count if can_prefill else prefixes
    width = max((len(prefix) for prefix in prefixes), default=0) or 1
    device = device_of(model)
    rows = [
        [len(prefix), limit, tokens[-1], *prefix, *[PAD] * (width - len(prefix))]
        for prefix, limit, tokens in zip(prefixes, ceilings, read, strict=True)
    ]
    return Request(
        config=config,
        numbers=send(rows, device),
        forbidden=send(list(forbid), device),
        prompts=[tokens[:-1] for tokens in read],
        steps=[len(prefix) + limit for prefix, limit in zip(prefixes, ceilings, strict=True)],
        follows=any(prefixes),
        never=tuple(forbid),
        uniforms=_uniforms(config, keys, max(ceilings), device) if config.sample else None,
        rules=rules,
    )


def _check_required(config: DecodeConfig, constraints: Sequence[Constraint]) -> None:
    """Required phrases need a beam: places for hypotheses that have said them beside places for those that have not."""
    if not any(one.require for one in constraints):
        return
    if config.sample:
        raise ConfigError("sampling cannot be made to say something", where="require", cure="search: beam = 4")
    if config.beam == 1:
        raise ConfigError("beam = 1 leaves no place for a text that waits", where="require", cure="beam = 2 or more")
    if config.groups > 1:
        raise ConfigError(f"groups = {config.groups} share no beam", where="require", cure="groups = 1")


def _within(longest: int | None, prefixes: Sequence[Sequence[int]], limits: list[int]) -> list[int]:
    """The limits, lowered to what the model can read; its last token is written and not read."""
    if longest is None:
        return limits
    for prefix in prefixes:
        if len(prefix) >= longest:
            raise DataError(
                f"a beginning of {len(prefix)} tokens fills model.max_positions = {longest}",
                cure='shorten it, or train with larger max_positions or with positions = "sinusoid" or "rotary"',
            )
    return [min(limit, longest - len(prefix)) for prefix, limit in zip(prefixes, limits, strict=True)]


def _uniforms(config: DecodeConfig, keys: Sequence[int], longest: int, device: torch.device) -> Tensor:
    """(C, n_best, longest). Each text has its own, made from the seed, the sentence's key and the number of the draw,
    so what is drawn for a sentence does not depend on the sentences beside it. In single precision: times a total in
    double it stays below that total."""
    check_memory(3 * 8 * len(keys) * config.n_best * longest, config, device)
    rows = [
        np.random.default_rng([config.seed, key, number]).random(longest, dtype=np.float32)
        for key in keys
        for number in range(config.n_best)
    ]
    return torch.from_numpy(np.array(rows, dtype=np.float64)).view(len(keys), config.n_best, longest).to(device)


def send(numbers: list[int] | list[list[int]], device: torch.device) -> Tensor:
    """Whole numbers beside the model, without waiting for what is going on there."""
    return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)


def device_of(model: Stepper) -> torch.device:
    """The device of a network's parameters; a model without any counts on the CPU."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))
