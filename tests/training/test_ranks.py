"""Several processes that train together: what they share, what they add up, and how one learns of another's end."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.multiprocessing as processes
from torch import nn
from torch.testing import assert_close

from weft.errors import ConfigError, Fault
from weft.training.ranks import ALONE, Ranks, join_ranks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and gloo is there on Linux")


def free_port() -> str:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return str(place.getsockname()[1])


def _enter(rank: int, size: int, port: str, work: Callable[[Ranks], Any], answers: Any) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.set_num_threads(1)
    try:
        with join_ranks(torch.device("cpu")) as ranks:
            answers.put((rank, work(ranks)))
    except Fault as error:
        answers.put((rank, str(error)))


def run(work: Callable[[Ranks], Any], size: int = 2) -> list[Any]:
    """What each of `size` processes gives for `work`, by rank."""
    context, port = processes.get_context("fork"), free_port()
    answers = context.Queue()
    started = [context.Process(target=_enter, args=(rank, size, port, work, answers)) for rank in range(size)]
    for process in started:
        process.start()
    found = [answers.get(timeout=60) for _ in started]
    for process in started:
        process.join()
    return [answer for _, answer in sorted(found)]


def test_alone_nothing_is_shared() -> None:
    assert (ALONE.first, ALONE.share([1, 2, 3]), ALONE.broadcast("a")) == (True, [1, 2, 3], "a")
    with join_ranks(torch.device("cpu")) as ranks:
        assert ranks is ALONE


def test_a_group_is_shared_without_rest() -> None:
    assert [Ranks(rank, 2).share("abcd") for rank in range(2)] == ["ac", "bd"]
    with pytest.raises(ConfigError, match="use a multiple of 2"):
        Ranks(0, 2).share("abc")


def _gradients(ranks: Ranks) -> list[list[float]]:
    model = nn.Linear(2, 1)
    model.weight.grad = torch.full((1, 2), float(ranks.rank + 1))  # autograd and forked processes do not go together
    if ranks.first:
        model.bias.grad = torch.ones(1)
    ranks.sum_gradients(list(model.parameters()))
    return [parameter.grad.flatten().tolist() for parameter in model.parameters()]


def test_gradients_are_added_up() -> None:
    for weight, bias in run(_gradients):
        assert weight == [3.0, 3.0]
        assert bias == [1.0]


def _hear(ranks: Ranks) -> Any:
    return ranks.broadcast({"loss": 0.1, "stop": True, "name": "é"} if ranks.first else None)


def test_all_hear_what_the_first_says() -> None:
    assert run(_hear, size=3) == [{"loss": 0.1, "stop": True, "name": "é"}] * 3


def _weights(ranks: Ranks) -> list[float]:
    torch.manual_seed(ranks.rank)
    model = nn.Linear(3, 1)
    ranks.broadcast_weights(model)
    return model.weight.flatten().tolist()


def test_all_start_from_the_weights_of_the_first() -> None:
    first, second = run(_weights)
    assert_close(torch.tensor(first), torch.tensor(second), rtol=0, atol=0)


def _die(ranks: Ranks) -> float:
    began = time.monotonic()
    if ranks.rank == 1:
        os.kill(os.getpid(), 9)
    with pytest.raises(Fault, match="another process of this training has ended"):
        ranks.sum(torch.ones(1))
    return time.monotonic() - began


def test_the_end_of_one_ends_the_others_in_words() -> None:
    context, port = processes.get_context("fork"), free_port()
    answers = context.Queue()
    started = [context.Process(target=_enter, args=(rank, 2, port, _die, answers)) for rank in range(2)]
    for process in started:
        process.start()
    rank, seconds = answers.get(timeout=60)
    for process in started:
        process.join()
    assert rank == 0
    assert 0 <= seconds < 15
