"""Several processes that train one model: who they are, and the few things they tell each other.

`torchrun --nproc-per-node 2 -m weft train …` starts them. An update is a group of batches; each rank takes its share of
the group, the gradients are added up, and all take the same step. So the same groups give the same curve on any number
of ranks. The first rank writes the run folder and decides; the others hear of it.
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

MEETING: Final = timedelta(minutes=30)
"""How long ranks wait until all have started."""

PATIENCE: Final = timedelta(hours=3)
"""How long they wait for one another then: the first may be tokenising a large text. Who dies is noticed at once."""

FAREWELL: Final = 5.0
"""Seconds that a rank which fails stays for the others to hear why; the first is the one who carries messages."""

_REASON, _GONE = "weft/reason", "weft/gone"

T = TypeVar("T")


class Ranks:
    """This process among the others; alone, every method does nothing."""

    def __init__(self, rank: int = 0, size: int = 1, board: Store | None = None) -> None:
        """`board` is where ranks leave word for one another without having to meet."""
        self.rank, self.size, self._board = rank, size, board

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and prints."""
        return self.rank == 0

    def share(self, group: Sequence[T]) -> Sequence[T]:
        """The part of a group of batches that is this rank's."""
        if len(group) % self.size:
            raise ConfigError(
                f"an update of {counted(len(group), 'batch', 'batches')} cannot be shared by {self.size} processes",
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
        """Another rank's end, told in words: its own, where it had the time to leave them."""
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
        """What a rank that failed has left; nothing if none has, or if the board went with it."""
        try:
            return self._board.get(_REASON).decode() if self._board and self._board.check([_REASON]) else ""
        except RuntimeError:
            return ""

    def leave(self, error: Exception) -> None:
        """Leave word of an error for the others; who fails because of them has nothing to add."""
        with suppress(RuntimeError):
            if self._board is not None:
                self._board.compare_set(_REASON, "", str(error) or type(error).__name__)
                self._board.add(_GONE, 1)

    def linger(self) -> None:
        """Wait a little until the others have left, too: the board may end with this process."""
        end = time.monotonic() + FAREWELL
        with suppress(RuntimeError):
            while self._board is not None and self._board.add(_GONE, 0) < self.size and time.monotonic() < end:
                time.sleep(0.05)


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
    board, rank, size = next(rendezvous("env://", timeout=MEETING))
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=board, rank=rank, world_size=size, timeout=PATIENCE)
    ranks = Ranks(rank, size, board)
    failed = False
    try:
        yield ranks
    except Exception as error:
        failed = True
        ranks.leave(error)
        raise
    finally:
        dist.destroy_process_group()  # those who wait for this one notice
        if failed:
            ranks.linger()
