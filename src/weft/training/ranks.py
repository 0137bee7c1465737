"""Several processes that train one model: who they are, and the few things they tell each other.

`torchrun --nproc-per-node 2 -m weft train …` starts them. An update is a group of batches; each rank takes its share of
the group, the gradients are added up, and all take the same step. So the same groups give the same curve on any number
of ranks. The first rank writes the run folder and decides; the others hear of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from weft.errors import ConfigError, Fault

PATIENCE: Final = timedelta(minutes=30)
"""How long ranks wait for one another: the first may be measuring the model."""

T = TypeVar("T")


class Ranks:
    """This process among the others; alone, every method does nothing."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and prints."""
        return self.rank == 0

    def share(self, group: Sequence[T]) -> Sequence[T]:
        """The part of a group of batches that is this rank's."""
        if len(group) % self.size:
            raise ConfigError(
                f"an update of {len(group)} batches cannot be shared by {self.size} processes",
                where="train.accumulate",
                cure=f"use a multiple of {self.size}",
            )
        return group[self.rank :: self.size]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            with self._together():
                dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Add up the gradients of all ranks, in one message; who has none for a parameter adds nothing."""
        if self.size == 1:
            return
        learned = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in learned:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in learned if parameter.grad is not None])
        self.sum(flat)
        parts = torch.split(flat, [parameter.numel() for parameter in learned])
        for parameter, part in zip(learned, parts, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(part.view_as(parameter))

    def hear(self, value: Any = None) -> Any:
        """What the first rank says, to all: plain values, as JSON."""
        if self.size == 1:
            return value
        device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu"
        said = torch.tensor(list(json.dumps(value).encode()) if self.first else [], dtype=torch.uint8, device=device)
        length = torch.tensor([said.numel()], device=device)
        with self._together():
            dist.broadcast(length, 0)
            heard = said if self.first else torch.empty(int(length), dtype=torch.uint8, device=device)
            dist.broadcast(heard, 0)
        return json.loads(bytes(heard.tolist()))

    def same_weights(self, model: nn.Module) -> None:
        """Give every rank the weights of the first."""
        if self.size == 1:
            return
        with self._together(), torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                dist.broadcast(tensor.data, 0)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Another rank's end, told in words; what it died of stands in its own output."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise Fault(
                f"another process of this training has ended ({reason})",
                cure="its own message says why; start again with --resume",
            ) from None


ALONE: Final = Ranks()


def is_first() -> bool:
    """Whether this process is the one that writes and prints, as torchrun has set it up."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def join_ranks(device: torch.device) -> Iterator[Ranks]:
    """The ranks that torchrun has started, found by the environment it sets; without one, this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Ranks(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
