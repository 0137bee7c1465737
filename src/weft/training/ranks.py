"""Ranks: several processes that train one model, and the communication between them.

`torchrun --nproc-per-node 2 -m weft train …` starts them. An update is a group of batches; each rank computes its share
of the group, the gradients are summed, and all make the same update. So the same groups give the same curve on any
number of ranks. The first rank writes the run folder and decides; the others receive its decisions.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from weft.errors import ConfigError, Fault, counted

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

START_TIMEOUT: Final = timedelta(minutes=30)
"""The longest wait until all ranks have started."""

COMMUNICATION_TIMEOUT: Final = timedelta(hours=3)
"""The longest wait for another rank: the first may be tokenising a large text. A rank that ends is noticed at once."""

LINGER_SECONDS: Final = 5.0
"""How long a rank that failed stays alive, so that the others can read why: the store lives in the first rank."""

_REASON, _GONE = "weft/reason", "weft/gone"

T = TypeVar("T")


class Ranks:
    """This process among the others; without others every method does nothing."""

    def __init__(self, rank: int = 0, size: int = 1, store: Store | None = None) -> None:
        """`store` holds messages between ranks that need not be waited for."""
        self.rank, self.size, self._store = rank, size, store

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes and prints."""
        return self.rank == 0

    def share(self, group: Sequence[T]) -> Sequence[T]:
        """Return this rank's part of a group of batches."""
        if len(group) % self.size:
            raise ConfigError(
                f"an update of {counted(len(group), 'batch', 'batches')} cannot be shared by {self.size} processes",
                where="train.accumulate",
                cure=f"use a multiple of {self.size}",
            )
        return group[self.rank :: self.size]

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all ranks, in place."""
        if self.size > 1:
            with self._together():
                dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum the gradients over all ranks, in one message; a missing gradient counts as zero."""
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

    def broadcast(self, value: Any = None) -> Any:
        """Return to every rank the value that the first rank passes: plain values, sent as JSON."""
        if self.size == 1:
            return value
        device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else "cpu"
        sent = torch.tensor(list(json.dumps(value).encode()) if self.first else [], dtype=torch.uint8, device=device)
        length = torch.tensor([sent.numel()], device=device)
        with self._together():
            dist.broadcast(length, 0)
            received = sent if self.first else torch.empty(int(length), dtype=torch.uint8, device=device)
            dist.broadcast(received, 0)
        return json.loads(bytes(received.tolist()))

    def broadcast_weights(self, model: nn.Module) -> None:
        """Copy the weights of the first rank to all."""
        if self.size == 1:
            return
        with self._together(), torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                dist.broadcast(tensor.data, 0)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turn the end of another rank into a Fault, with its reason if it left one."""
        try:
            yield
        except RuntimeError as error:
            if reason := self._reason():
                raise Fault(f"another process of this training has ended: {reason}") from None
            reason = str(error).strip().splitlines()[0]
            raise Fault(
                f"another process of this training has ended ({reason})",
                cure="its own message says why; start again with --resume",
            ) from None

    def _reason(self) -> str:
        """Return the error message that a failed rank left in the store; "" if there is none or the store is gone."""
        try:
            return self._store.get(_REASON).decode() if self._store and self._store.check([_REASON]) else ""
        except RuntimeError:
            return ""

    def leave(self, error: Exception) -> None:
        """Leave the message of an error for the others; the first one counts, later ones are its consequences."""
        with suppress(RuntimeError):
            if self._store is not None:
                self._store.compare_set(_REASON, "", str(error) or type(error).__name__)
                self._store.add(_GONE, 1)

    def linger(self) -> None:
        """Wait a few seconds for the others to end, since the store may end with this process."""
        end = time.monotonic() + LINGER_SECONDS
        with suppress(RuntimeError):
            while self._store is not None and self._store.add(_GONE, 0) < self.size and time.monotonic() < end:
                time.sleep(0.05)


ALONE: Final = Ranks()


def is_first() -> bool:
    """Whether this process is the rank that writes and prints, according to the environment that torchrun sets."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def join_ranks(device: torch.device) -> Iterator[Ranks]:
    """Join the ranks that torchrun has started, found by the environment it sets; without it, this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    store, rank, size = next(rendezvous("env://", timeout=START_TIMEOUT))
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=COMMUNICATION_TIMEOUT)
    ranks = Ranks(rank, size, store)
    failed = False
    try:
        yield ranks
    except Exception as error:
        failed = True
        ranks.leave(error)
        raise
    finally:
        dist.destroy_process_group()  # ranks that wait for this one get an error
        if failed:
            ranks.linger()
