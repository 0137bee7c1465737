"""The attention of a model by layer: the calls that were recorded in one pass, with their place in the model.

Weights are computed when they are read, one head at a time, so that a long input takes little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.models.memory import Decoder, stacks_of
from weft.nn.attention import AttentionCall

Part = Literal["cross", "decoder", "encoder", "pooling"]
PARTS: Final[tuple[Part, ...]] = ("cross", "decoder", "encoder", "pooling")
"""The kinds of attention in a model, the first of which that a model has is shown by default."""

Reduce = Literal["mean", "max", "rollout"]


@dataclass(frozen=True)
class AttentionLayer:
    """One layer of attention: `number` counts from 1 in its part, `module` is its name in the model."""

    part: Part
    number: int
    module: str
    calls: tuple[AttentionCall, ...] = field(repr=False)
    """One call, or one for each step."""

    @property
    def heads(self) -> int:
        return self.calls[0].heads

    @property
    def queries(self) -> int:
        return sum(call.query.size(2) for call in self.calls)

    @property
    def keys(self) -> int:
        return max(call.key.size(2) for call in self.calls)

    @torch.no_grad()
    def weights(self, head: int, *, every: int = 1) -> Tensor:
        """The weights (queries, keys) of a head, which counts from 1; with `every`, of each `every`-th query."""
        if len(self.calls) == 1:
            return self.calls[0].weights(head=head - 1, every=every).float()
        rows = torch.zeros(len(self.calls), self.keys)
        for row, call in zip(rows, self.calls, strict=True):
            row[: call.key.size(2)] = call.weights(head=head - 1)[0]
        return rows[::every]

    def reduced(self, how: Literal["mean", "max"]) -> Tensor:
        """The mean or the largest weight over all heads (queries, keys)."""
        found = self.weights(1)
        for head in range(2, self.heads + 1):
            other = self.weights(head)
            found = found.add_(other) if how == "mean" else torch.maximum(found, other)
        return found.div_(self.heads) if how == "mean" else found


class Chosen(NamedTuple):
    """The map that is shown: weights (R, C) of a layer; `head` is None where all heads are reduced to one map."""

    layer: AttentionLayer
    head: int | None
    weights: Tensor


def find_layers(model: nn.Module, calls: Sequence[AttentionCall]) -> list[AttentionLayer]:
    """Return the layers in the order in which they were called. A module that was called with one query after the
    other, as in steps, is one layer."""
    names = {module: name for name, module in model.named_modules()}
    stacks = stacks_of(model)
    grouped: list[list[AttentionCall]] = []
    steps: dict[nn.Module, list[AttentionCall]] = {}
    for call in calls:
        single = call.module is not None and call.query.size(2) == 1
        if single and call.module in steps:
            steps[call.module].append(call)
            continue
        grouped.append([call])
        if single and call.module is not None:
            steps[call.module] = grouped[-1]
    counts: dict[Part, int] = dict.fromkeys(PARTS, 0)
    found = []
    for group in grouped:
        name = "" if group[0].module is None else names.get(group[0].module, "")
        part = _part(group[0], isinstance(stacks.get(name.split(".")[0]), Decoder))
        counts[part] += 1
        found.append(AttentionLayer(part, counts[part], name, tuple(group)))
    return found


def _part(call: AttentionCall, in_decoder: bool) -> Part:
    if call.attends_to == "self":
        return "decoder" if in_decoder or call.causal else "encoder"
    return "cross" if call.attends_to == "memory" else "pooling"


def choose(
    layers: Sequence[AttentionLayer], *, part: str, layer: int, head: int, reduce: Reduce
) -> tuple[list[AttentionLayer], Chosen]:
    """Return the layers of a part, and the map to show: `layer` 0 is the last one, `head` 0 all of them."""
    have = [name for name in PARTS if any(one.part == name for one in layers)]
    if part not in ("auto", *have):
        cure = f"choose {' or '.join(have)}"
        raise ConfigError(f"this model has no attention of that kind for this input: {part}", where="part", cure=cure)
    own = [one for one in layers if one.part == (have[0] if part == "auto" else part)]
    if layer > len(own):
        raise _too_high("layer", layer, len(own))
    shown = own[layer - 1]
    if head > shown.heads:
        raise _too_high("head", head, shown.heads)
    if head:
        return own, Chosen(shown, head, shown.weights(head))
    weights = roll_out(layers, shown) if reduce == "rollout" else shown.reduced(reduce)
    return own, Chosen(shown, None, weights)


def roll_out(layers: Sequence[AttentionLayer], last: AttentionLayer) -> Tensor:
    """Return attention through all layers up to the last (Abnar and Zuidema, 2020), with Ā the mean over heads:

    encoder, decoder    R_l = (½ Ā_l + ½ I) R_{l-1}, R_0 = I
    cross, pooling      Ā_l R of the whole encoder
    """
    if last.part in ("cross", "pooling"):
        encoder = [one for one in layers if one.part == "encoder"]
        mean = last.reduced("mean")
        fits = bool(encoder) and encoder[-1].queries == last.keys
        return mean @ roll_out(layers, encoder[-1]) if fits else mean
    rolled: Tensor | None = None
    for one in layers:
        if one.part != last.part or one.queries != last.queries or one.number > last.number:
            continue
        mean = one.reduced("mean").mul_(0.5)
        mean.diagonal().add_(0.5)
        rolled = mean if rolled is None else mean @ rolled
    assert rolled is not None
    return rolled


def _too_high(noun: str, number: int, count: int) -> ConfigError:
    what, cure = f"there are {count} {noun}s", f"from 1 to {count}"
    if count == 1:
        what, cure = f"there is one {noun}", "leave it out"
    return ConfigError(what, where=f"{noun} = {number}", cure=cure)
