"""The memory that a search takes, estimated before it starts: with little memory fewer sentences are searched at once,
and where not even one fits, the search raises an error.

K hypotheses of a sentence, of up to T tokens, V tokens of the vocabulary. The beams hold K · T back pointers, the model
K states, which for a transformer have K · T positions, and a step scores K · V continuations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from weft.decoding.config import DecodeConfig
from weft.errors import ConfigError
from weft.memory import machine_memory, show_bytes
from weft.models.memory import Memory
from weft.models.stepper import FixedStepper, Writer
from weft.nn import Shared, State

if TYPE_CHECKING:
    from weft.decoding.request import Request

COMMON_TOKENS: Final = 512
"""Tokens of a hypothesis up to which a search of few rows is not estimated: estimating takes as long as a step."""

POINTER_BYTES, LOG_BYTES, COPIES = 8, 8, 3
"""Bytes of a back pointer and of a log-probability, and the number of copies of both while they are read."""

CONTINUATION_BYTES: Final = {"search": 12, "sample": 48}
"""Bytes of a step for each continuation: scores and log-probabilities; sampling also sorts and adds up in double."""

PENALTY_BYTES: Final = 20
"""Bytes of a step for each continuation where penalties count tokens: counts, and log-probabilities without them."""

CANDIDATE_BYTES: Final = 48
"""Bytes for each of a row's best continuations, from which the K of a sentence are chosen."""


def sentence_bytes(model: FixedStepper, memory: Any, request: Request, *, attention: bool) -> int:
    """The bytes that the search for one sentence takes, all its groups together."""
    rows, tokens = request.width * request.config.groups, max(request.capacity, max(request.steps)) + 1
    shared, state = _state_bytes(model, memory, tokens, request.device)
    beams = rows * tokens * (COPIES * (POINTER_BYTES + LOG_BYTES) + (2 * LOG_BYTES if request.config.sample else 0))
    weights = rows * tokens * 4 * source_length(memory) if attention else 0
    return shared + rows * state + beams + weights + _step_bytes(model, request, rows)


def check_memory(needed: int, config: DecodeConfig, device: torch.device) -> None:
    """Raise an error if fewer bytes are free."""
    free = free_memory(device)
    if free is None or needed <= free:
        return
    name, value = ("n_best", config.n_best) if config.sample else ("beam", config.beam)
    what = f"with max_length = {config.max_length} one text takes {show_bytes(needed)}, and {show_bytes(free)} are free"
    raise ConfigError(what, where=f"decode.{name} = {value}", cure="lower one of the two")


def free_memory(device: torch.device) -> int | None:
    """Bytes that are free on a device now; None where that is unknown."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    machine = machine_memory()
    return None if machine is None else machine.free


def source_length(memory: Any) -> int:
    """Positions of the memory that attention reads."""
    states = getattr(memory, "states", None)
    return states.size(1) if isinstance(states, Tensor) else 0


def pad_memory(memory: Any, size: int) -> Any:
    """A memory of at least `size` positions."""
    return memory.padded(size) if isinstance(memory, Memory) and memory.states.size(1) < size else memory


def _step_bytes(model: FixedStepper, request: Request, rows: int) -> int:
    """The bytes that a step takes beside the states."""
    if not isinstance(model, Writer):
        return 0
    vocabulary = model.output.scores.out_features
    counts = PENALTY_BYTES if request.config.penalises else 0
    if request.config.sample:
        return rows * vocabulary * (CONTINUATION_BYTES["sample"] + counts)
    candidates = min(request.width + 1, vocabulary) * CANDIDATE_BYTES
    return rows * (vocabulary * (CONTINUATION_BYTES["search"] + counts) + candidates)


def _state_bytes(model: FixedStepper, memory: Any, tokens: int, device: torch.device) -> tuple[int, int]:
    """Bytes that the hypotheses of a sentence share, and those of one of them; from states for one and two tokens."""
    first, pair = torch.zeros(1, dtype=torch.long, device=device), 2
    (shared, one), (_, two) = (_count(model.reserve(memory, first, width=pair, capacity=size)) for size in (1, 2))
    return shared, (one + (tokens - 1) * (two - one)) // pair


def _count(state: State) -> tuple[int, int]:
    """Bytes of a state that rows share, and bytes of the rows themselves."""
    if isinstance(state, Tensor):
        return 0, state.numel() * state.element_size()
    if isinstance(state, Shared):
        return sum(_count(state.value)), state.rows.numel() * state.rows.element_size()
    found = [_count(part) for part in state] if isinstance(state, tuple) else []
    return sum(shared for shared, _ in found), sum(own for _, own in found)
