"""Rates by layer and gradual unfreezing, for a model that starts from weights that are good already.

The distance of a parameter from the top of its encoder or decoder decides. Of a stack of L layers

    0            everything outside of a stack, such as the output, and all parameters that are new
    1 … L        the layers from the last to the first
    L + 1        embeddings and positions

The rate of a parameter is rate · decay^distance; new ones may have a rate of their own. With unfreezing, the parameters
at distance d learn from update d · every + 1 on. Gradients are computed for all of them at every update, so that a CUDA
graph of an update stays valid; those of frozen parameters are dropped before the norm is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from torch import nn

from weft.errors import ConfigError
from weft.models import stacks_of
from weft.training.config import TrainConfig


def distances(model: nn.Module, new: Collection[str] = ()) -> dict[str, int]:
    """The distance of each parameter from the top, by its name."""
    found = {id(parameter): 0 for parameter in model.parameters()}
    for stack in stacks_of(model).values():
        layers = stack.each_layer()
        found |= {id(parameter): len(layers) + 1 for parameter in stack.parameters()}
        for number, layer in enumerate(layers):
            found |= {id(parameter): len(layers) - number for parameter in layer.parameters()}
    return {name: 0 if name in new else found[id(parameter)] for name, parameter in model.named_parameters()}


@dataclass(frozen=True)
class LayerRates:
    """The rate of each parameter, and the update from which on it learns."""

    rates: Mapping[str, float] = field(default_factory=dict)
    """Rates that differ from that of the optimizer, by the names of parameters."""
    begins: Mapping[str, int] = field(default_factory=dict)
    """The first update that changes a parameter, where it is not the first of all."""

    @classmethod
    def of(cls, model: nn.Module, settings: TrainConfig, new: Collection[str] = ()) -> LayerRates:
        """The rates and beginnings that the settings describe."""
        found = distances(model, new)
        rates = {name: settings.rate * settings.rate_decay**distance for name, distance in found.items() if distance}
        if settings.rate_decay == 1.0:
            rates = {}
        if settings.new_rate is not None:
            rates |= dict.fromkeys(new, settings.new_rate)
        every = settings.unfreeze_every
        learning = [name for name, one in model.named_parameters() if one.requires_grad]
        least = min((found[name] for name in learning), default=0)
        begins = {name: (distance - least) * every + 1 for name, distance in found.items()} if every else {}
        if settings.freeze and every and not any(begins[name] > 1 for name in learning):
            patterns = ", ".join(f'"{pattern}"' for pattern in settings.freeze)
            what = f"no layer is left to begin later beside train.freeze = [{patterns}]"
            raise ConfigError(what, where=f"train.unfreeze_every = {every}", cure="leave out one of the two")
        return cls(rates, {name: update for name, update in begins.items() if update > 1})

    def frozen(self, model: nn.Module) -> list[tuple[int, nn.Parameter]]:
        """The parameters that begin to learn later, each with its first update."""
        return [(self.begins[name], parameter) for name, parameter in model.named_parameters() if name in self.begins]
