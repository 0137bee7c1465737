"""How much memory a search takes, estimated before it begins: sentences wait for each other where it is little, and a
search that cannot hold one of them is refused.

K hypotheses of a sentence, of up to T tokens, V tokens of the vocabulary. The beams holds K · T back pointers, the
model K states, a transformer's of K · T positions, and a step scores K · V continuations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.errors import ConfigError
from weft.memory import machine_memory, show_bytes
from weft.models.stepper import FixedStepper, Writer
from weft.nn import Shared, State

if TYPE_CHECKING:
    from weft.decoding.request import Request

COMMON_TOKENS: Final = 512
"""Tokens of a hypothesis up to which a search of a few rows is not looked into: estimating takes as long as a step."""

POINTER, REAL, COPIES = 8, 8, 3
"""Bytes of a back pointer and of a log-probability, and how often both are there while they are read."""

SCORED: Final = {"search": 12, "sample": 48}
"""Bytes of a step for each continuation: scores and log-probabilities; drawing also sorts and adds up in double."""

BEST: Final = 48
"""Bytes for each of a row's best continuations, from which the K of a sentence are chosen."""


def sentence_bytes(model: FixedStepper, memory: Any, request: Request, *, attention: bool) -> int:
    """What the search for one sentence takes, all its groups together."""
    rows, tokens = request.width * request.config.groups, max(request.room, max(request.steps)) + 1
    shared, state = _state_bytes(model, memory, tokens, request.device)
    beams = rows * tokens * (COPIES * (POINTER + REAL) + (2 * REAL if request.config.sample else 0))
    looks = rows * tokens * 4 * source_length(memory) if attention else 0
    return shared + rows * state + beams + looks + _step_bytes(model, request, rows)


def check_memory(needed: int, config: DecodeConfig, device: torch.device) -> None:
    """Raise an error if so many bytes are more than there are now."""
    free = free_memory(device)
    if free is None or needed <= free:
        return
    name, value = ("n_best", config.n_best) if config.sample else ("beam", config.beam)
    what = f"with max_length = {config.max_length} one text takes {show_bytes(needed)}, and {show_bytes(free)} are free"
    raise ConfigError(what, where=f"decode.{name} = {value}", cure="lower one of the two")


def free_memory(device: torch.device) -> int | None:
    """Bytes that can be had on a device now; None where nobody knows."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    machine = machine_memory()
    return None if machine is None else machine.free


def source_length(memory: Any) -> int:
    """Positions that attention may look at."""
    states = getattr(memory, "states", None)
    return states.size(1) if isinstance(states, Tensor) else 0


def _step_bytes(model: FixedStepper, request: Request, rows: int) -> int:
    """What a step takes beside the states."""
    if not isinstance(model, Writer):
        return 0
    vocabulary = model.output.scores.out_features
    if request.config.sample:
        return rows * vocabulary * SCORED["sample"]
    return rows * (vocabulary * SCORED["search"] + min(request.width + 1, vocabulary) * BEST)


def _state_bytes(model: FixedStepper, memory: Any, tokens: int, device: torch.device) -> tuple[int, int]:
    """Bytes that the hypotheses of a sentence share, and those of one hypothesis; from states for one token and two."""
    first, pair = torch.zeros(1, dtype=torch.long, device=device), 2
    (shared, one), (_, two) = (_count(model.reserve(memory, first, width=pair, capacity=size)) for size in (1, 2))
    return shared, (one + (tokens - 1) * (two - one)) // pair


def _count(state: State) -> tuple[int, int]:
    """Bytes of a state that rows share, and of the rows themselves."""
    if isinstance(state, Tensor):
        return 0, state.numel() * state.element_size()
    if isinstance(state, Shared):
        return sum(_count(state.value)), state.rows.numel() * state.rows.element_size()
    found = [_count(part) for part in state] if isinstance(state, tuple) else []
    return sum(shared for shared, _ in found), sum(own for _, own in found)
