"""Whether a model fits into memory: estimated from its sizes alone, before any of it is built.

A training keeps the weights, a gradient for each that learns, and the optimizer's moments of each. It needs more: the
activations of a batch, a copy of the best weights. What is refused here cannot be trained
with batches of any size.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor, nn

from weft.catalog import TASKS
from weft.config import Config
from weft.errors import ConfigError, RunError, counted
from weft.memory import machine_memory, show_bytes
from weft.run.card import own_cells
from weft.run.outline import outlines
from weft.tasks import Codec
from weft.training import choose_device, freeze

MOMENTS: Final = {"sgd": 1}
"""Numbers that an optimizer keeps of each that learns; Adam and its kin keep two."""


class Sizes(NamedTuple):
    """Parameters of a model, and the bytes of its weights and of those among them that learn."""

    parameters: int
    weights: int
    learned: int


class Unknown:
    """Stands for tokenizers before the data is read: the smallest vocabulary there can be."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, role: str) -> Unknown:
        return self

    def __contains__(self, role: str) -> bool:
        return True


SMALLEST: Final = Codec(cast("Any", Unknown()), ("",))


def check_fits(config: Config, codec: Codec | None = None) -> None:
    """Raise an error for a model that no training on its device could hold.

    Without a codec, before the data is read, the vocabulary is not counted, nor what is frozen: the names of parameters
    may depend on defaults that the data decides.
    """
    outline, settings = _outline(config, codec or SMALLEST), config.train
    if outline is None:
        return
    if settings.freeze and codec is None:
        outline.requires_grad_(False)
    elif settings.freeze:
        freeze(outline, settings.freeze)
    sizes, moments = measure(outline), MOMENTS.get(settings.optimizer, 2)
    needed = sizes.weights + (1 + moments) * sizes.learned
    device = choose_device(settings.device)
    memory = memory_of(device)
    if memory is not None and needed > memory:
        kept = f"weights, gradients and {counted(moments, 'moment')} of {counted(sizes.parameters, 'parameter')}"
        raise ConfigError(
            f"{kept} take {show_bytes(needed)}, and {_owner(device)} has {show_bytes(memory)}",
            where="[model]",
            cure="make it smaller: layers, sizes, or text.size",
        )


def check_loads(outline: nn.Module, device: torch.device, *, where: str) -> None:
    """Raise an error for a model, given as its sizes alone, whose weights cannot be held: on the processor, where it is
    built, and on its device."""
    needed = measure(outline).weights
    for place in (torch.device("cpu"), device):
        memory = memory_of(place)
        if memory is not None and needed > memory:
            what = f"its weights take {show_bytes(needed)}, and {_owner(place)} has {show_bytes(memory)}"
            raise RunError(what, where=where, cure="use a machine with more memory")


def measure(model: nn.Module) -> Sizes:
    """The sizes of a model, which may be an outline; what is tied counts once."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    count = sum(parameter.numel() for parameter in parameters)
    return Sizes(count, _bytes([*parameters, *buffers]), _bytes(learned))


def memory_of(device: torch.device) -> int | None:
    """All bytes that a process can have there."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    machine = machine_memory()
    return None if machine is None else machine.total


def _outline(config: Config, codec: Codec) -> nn.Module | None:
    """The model without numbers; None where a cell of a person's own cannot be built so."""
    try:
        with outlines():
            return TASKS[config.task].build(config.model, codec)
    except Exception:
        if own_cells(config):
            return None
        raise


def _bytes(tensors: list[nn.Parameter] | list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _owner(device: torch.device) -> str:
    return "this GPU" if device.type == "cuda" else "this machine"
