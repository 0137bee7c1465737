"""The request of a search as tensors beside the model: limits, prefixes and forbidden tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.decoding.constraints import Constraint, SentenceConstraint, compile_constraints
from weft.decoding.memory import check_memory
from weft.decoding.stops import StopState, StopStrings
from weft.errors import ConfigError, DataError
from weft.models.stepper import Stepper
from weft.text import EOS, PAD, SOS


@dataclass(frozen=True, slots=True)
class Request:
    """A search for C sentences. The given beginning of a text is a prompt, which the model reads in one pass before the
    first step; for a model without prefill it is a prefix, which is forced in the first steps: sentence i generates
    from step prefix_lengths[i] on, for at most limits[i] steps."""

    config: DecodeConfig
    numbers: Tensor
    """(C, 3 + P), which the properties below name."""
    forbidden: Tensor
    """(F,)"""
    prompts: list[list[int]]
    """The tokens that the model reads of each sentence before its first step, on the host: reading them back from the
    device would block."""
    steps: list[int]
    """The most steps of each sentence, those of its prefix included, on the host."""
    has_prefixes: bool
    """Whether some sentence has a prefix."""
    forbidden_ids: tuple[int, ...]
    """The forbidden tokens on the host."""
    uniforms: Tensor | None
    """(C, n_best, longest limit) when sampling: random numbers in [0, 1) for each token of each text."""
    constraints: tuple[SentenceConstraint, ...] | None = None
    """Phrases that each sentence may not and must contain, where there are any."""
    stops: StopState | None = None
    """Strings at which texts stop, where there are any."""
    beginnings: tuple[tuple[int, ...], ...] = ()
    """The prompt or the prefix of each sentence, on the host, where a penalty counts it."""

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
        """The device of tokens and scores: that of the model."""
        return self.numbers.device

    @property
    def width(self) -> int:
        """Hypotheses of a slot: of each sentence, or of each of its groups."""
        return self.config.width

    @property
    def recordable(self) -> bool:
        """Whether a step can be recorded, and the C and the kernels can make it: the host checks constraints, and a
        recording cannot read back; stop strings and penalties are written in torch alone."""
        return self.constraints is None and self.stops is None and not self.config.penalises

    @property
    def independent(self) -> bool:
        """Whether a step of one slot reads nothing of the others or of the host."""
        return self.recordable and self.config.groups == 1

    @property
    def plain(self) -> bool:
        """Whether it is beam search as the GPU kernels implement it."""
        return self.independent and self.config.stop == "bound"

    @property
    def by_bound(self) -> bool:
        """Whether a sentence stops by the bound on its scores; greedy search stops at its first end."""
        return self.config.stop == "bound" and self.width > 1

    @property
    def finished(self) -> int:
        """The number of finished hypotheses that end a slot, except where it stops by the bound."""
        return self.config.finished if self.config.finished is not None and self.width > 1 else self.width

    @property
    def requires(self) -> bool:
        """Whether some sentence has a required phrase."""
        return any(one.compiled.constraint.require for one in self.constraints or ())

    @property
    def capacity(self) -> int:
        """The most tokens that the model reads of a sentence."""
        return max(len(prompt) + steps for prompt, steps in zip(self.prompts, self.steps, strict=True))

    def log_probabilities(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """logits (N, V), lengths (N,) with the next token -> log-probabilities, -inf for forbidden tokens.

        They are not renormalised: they are equal to those of scoring the finished text.
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
    sources: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
    seeds: Sequence[int] | None = None,
    constraints: Sequence[Constraint] | None = None,
    stops: StopStrings | None = None,
    can_prefill: bool = False,
) -> Request:
    """Check a request and move it to the device of the model, with prompts or, without prefill, with prefixes. `seeds`
    are those of the sentences, where they differ from config.seed."""
    prefixes = [()] * count if prefixes is None else prefixes
    sources = [()] * count if sources is None else sources
    ceilings = [config.max_length] * count if limits is None else [int(limit) for limit in limits]
    keys = range(count) if keys is None else keys
    seeds = [config.seed] * count if seeds is None else seeds
    named = {"prefixes": prefixes, "sources": sources, "limits": ceilings, "keys": keys, "constraints": constraints} | {
        "seeds": seeds
    }
    for name, given in named.items():
        if given is not None and len(given) != count:
            raise ConfigError(f"{len(given)} are given for {count} sentences", where=name, cure="one for each")
    if any(limit < 1 for limit in ceilings):
        raise ConfigError(f"a limit of {min(ceilings)} tokens is too low", where="limits", cure="at least 1")
    ceilings = [min(limit, config.max_length) for limit in ceilings]
    begun = [[*source, SOS, *prefix] for source, prefix in zip(sources, prefixes, strict=True)]
    ceilings = _within(getattr(model, "longest", None), [tokens[1:] for tokens in begun], ceilings)
    _check_required(config, constraints or ())
    _check_stops(config, stops)
    beginnings = tuple(map(tuple, prefixes))
    compiled = compile_constraints(constraints, prefixes)
    read = [tokens if can_prefill else tokens[:1] for tokens in begun]
    prefixes = [()] * count if can_prefill else [tokens[1:] for tokens in begun]
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
        has_prefixes=any(prefixes),
        forbidden_ids=tuple(forbid),
        uniforms=_uniforms(config, list(zip(seeds, keys, strict=True)), max(ceilings), device)
        if config.sample
        else None,
        constraints=compiled,
        stops=None if stops is None else _stop_state(stops, beginnings, device),
        beginnings=beginnings if config.penalises else (),
    )


def _check_required(config: DecodeConfig, constraints: Sequence[Constraint]) -> None:
    """Required phrases need a beam, with places for hypotheses that have them beside places for those without."""
    if not any(one.require for one in constraints):
        return
    if config.sample:
        raise ConfigError("needs beam search, not sample = true", where="require", cure="remove sample")
    if config.beam == 1:
        raise ConfigError("needs a beam of at least 2, not beam = 1", where="require", cure="raise beam")
    if config.groups > 1:
        raise ConfigError(f"needs one beam, not groups = {config.groups}", where="require", cure="groups = 1")


def _check_stops(config: DecodeConfig, stops: StopStrings | None) -> None:
    """The strings of a search are those of its settings; only the texts of tokens are not known here."""
    if tuple(config.stop_at) != (stops.strings if stops else ()):
        cure = "stops = StopStrings(config.stop_at, spelling_of(tokenizer))"
        raise ConfigError("needs the text of each token", where=f"stop_at = {config.stop_at}", cure=cure)


def _stop_state(stops: StopStrings, beginnings: Sequence[Sequence[int]], device: torch.device) -> StopState:
    return StopState(stops.table.to(device), send([stops.start(tokens) for tokens in beginnings], device))


def _within(longest: int | None, prefixes: Sequence[Sequence[int]], limits: list[int]) -> list[int]:
    """The limits, lowered to what the model can read; the last token is written but not read."""
    if longest is None:
        return limits
    for prefix in prefixes:
        if len(prefix) >= longest:
            raise DataError(
                f"a prompt of {len(prefix)} tokens leaves no position of model.max_positions = {longest}",
                cure='shorten it, or train with larger max_positions or with positions = "sinusoid" or "rotary"',
            )
    return [min(limit, longest - len(prefix)) for prefix, limit in zip(prefixes, limits, strict=True)]


def _uniforms(config: DecodeConfig, keys: Sequence[tuple[int, int]], longest: int, device: torch.device) -> Tensor:
    """(C, n_best, longest). They follow from the seed, the sentence's key and the number of the text, so that a sampled
    text does not depend on the sentences beside it. They have single precision: the product with a total in double
    stays below that total."""
    check_memory(3 * 8 * len(keys) * config.n_best * longest, config, device)
    rows = [
        np.random.default_rng([seed, key, number]).random(longest, dtype=np.float32)
        for seed, key in keys
        for number in range(config.n_best)
    ]
    return torch.from_numpy(np.array(rows, dtype=np.float64)).view(len(keys), config.n_best, longest).to(device)


def send(numbers: list[int] | list[list[int]], device: torch.device) -> Tensor:
    """Integers on the device of the model, copied without blocking."""
    return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)


def device_of(model: Stepper) -> torch.device:
    """The device of a network's parameters; a model without parameters is on the CPU."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))
