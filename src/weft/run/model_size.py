"""The size of a model, and whether it fits into memory: known from a model on the "meta" device, before it is built.

A training keeps the weights, a gradient for each weight that learns, and the optimizer's moments of each. It needs
more: the activations of a batch, a copy of the best weights. A model that is refused here cannot be trained with
batches of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from weft.catalog import TASKS
from weft.config import Config
from weft.errors import ConfigError, RunError, counted
from weft.memory import machine_memory, show_bytes
from weft.run.user_classes import has_user_class
from weft.tasks import Codec
from weft.training import TrainConfig, choose_device, freeze

MOMENTS_PER_WEIGHT: Final = {"sgd": 1}
"""Numbers that an optimizer keeps for each weight that learns; Adam and its relatives keep two."""

NORMAL_DRAWS: Final[tuple[Callable[..., Any], ...]] = (Tensor.normal_, nn.init.normal_)
"""Functions that do nothing on the "meta" device, but make torch load its compiler there, which takes longer than all
the rest of loading a run."""


def moments_of(settings: TrainConfig) -> int:
    """Numbers that the optimizer keeps for each weight that learns."""
    if settings.optimizer == "sgd" and not settings.momentum:
        return 0
    return MOMENTS_PER_WEIGHT.get(settings.optimizer, 2)


class SkipNormalDraws(TorchFunctionMode):
    """Leaves tensors as they are instead of drawing normal numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in NORMAL_DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def meta_device() -> Iterator[None]:
    """Build models on the "meta" device inside the block: they have sizes, but no numbers and no memory."""
    with torch.device("meta"), SkipNormalDraws():
        yield


class Sizes(NamedTuple):
    """Parameters of a model, the bytes of its weights, and the bytes of those that learn."""

    parameters: int
    weights: int
    learned: int


class UnknownTokenizers:
    """Replaces tokenizers before the data is read: the smallest vocabulary there can be, for every role."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, role: str) -> UnknownTokenizers:
        return self

    def __contains__(self, role: str) -> bool:
        return True


SMALLEST_CODEC: Final = Codec(cast("Any", UnknownTokenizers()), ("",))


def check_fits(config: Config, codec: Codec | None = None) -> None:
    """Raise an error for a model that no training on its device could hold.

    Without a codec, before the data is read, neither the vocabulary nor frozen weights count: the names of parameters
    may depend on defaults that the data decides.
    """
    model, settings = _build_meta(config, codec or SMALLEST_CODEC), config.train
    if model is None:
        return
    if settings.freeze and codec is None:
        model.requires_grad_(False)
    elif settings.freeze:
        freeze(model, settings.freeze)
    sizes, moments = measure(model), moments_of(settings)
    needed = sizes.weights + (1 + moments) * sizes.learned
    device = choose_device(settings.device)
    memory = memory_of(device)
    if memory is not None and needed > memory:
        parts = f"weights, gradients and {counted(moments, 'moment')} of {counted(sizes.parameters, 'parameter')}"
        raise ConfigError(
            f"{parts} take {show_bytes(needed)}, and {_owner(device)} has {show_bytes(memory)}",
            where="[model]",
            cure="make it smaller: layers, sizes, or text.size",
        )


def check_loads(model: nn.Module, device: torch.device, *, where: str) -> None:
    """Raise an error for a model, given on the "meta" device, whose weights do not fit into memory.

    They must fit on the CPU, where the model is built, and on its device.
    """
    needed = measure(model).weights
    for place in (torch.device("cpu"), device):
        memory = memory_of(place)
        if memory is not None and needed > memory:
            what = f"its weights take {show_bytes(needed)}, and {_owner(place)} has {show_bytes(memory)}"
            raise RunError(what, where=where, cure="use a machine with more memory")


def measure(model: nn.Module) -> Sizes:
    """Return the sizes of a model, which may be on the "meta" device; tied weights count once."""
    parameters, buffers = list(model.parameters()), list(model.buffers())
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    count = sum(parameter.numel() for parameter in parameters)
    return Sizes(count, _bytes([*parameters, *buffers]), _bytes(learned))


def memory_of(device: torch.device) -> int | None:
    """Return all bytes that a process can have on the device; None where they are unknown."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    machine = machine_memory()
    return None if machine is None else machine.total


def _build_meta(config: Config, codec: Codec) -> nn.Module | None:
    """Build the model on the "meta" device; return None where a user's own class cannot be built there."""
    try:
        with meta_device():
            return TASKS[config.task].network(config, codec)
    except Exception:
        if has_user_class(config):
            return None
        raise


def _bytes(tensors: list[nn.Parameter] | list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _owner(device: torch.device) -> str:
    return "this GPU" if device.type == "cuda" else "this machine"
