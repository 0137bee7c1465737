"""Lanes on a GPU whose turn was recorded once, as a CUDA graph, and is replayed: nothing waits for Python.

Recordings are kept with the model, one for each shape of search, the shapes rounded up so that they are few.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any, Final

import torch
from torch import nn

from weft.decoding.board import Board, Shape
from weft.decoding.lanes import MOST_ROWS, Lanes, dtype_of, shape_of
from weft.decoding.request import Request
from weft.decoding.rows import FixedRows
from weft.models.memory import Memory
from weft.models.stepper import FixedStepper, is_fixed
from weft.nn.kernels import power_of_two
from weft.nn.recording import addresses

KEPT: Final = 4
"""Recordings of a model; the one that was not used for longest goes first."""

TOGETHER: Final = 8
"""Turns before anybody looks which sentences have ended."""

_kept: weakref.WeakKeyDictionary[nn.Module, OrderedDict[Any, CapturedLanes]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class CapturedLanes(Lanes):
    """Lanes of a rounded shape, most of the time more than there are sentences."""

    shrinks = False

    def __init__(self, model: FixedStepper, memory: Any, shape: Shape, request: Request, *, room: int) -> None:
        sentences = torch.zeros(shape.lanes, dtype=torch.long, device=request.device)
        rows = FixedRows(model, memory, sentences, shape.width, room=room, attention=False)
        super().__init__(rows, Board(shape, request.device, dtype_of(model)), request)
        self.rows: FixedRows = rows
        self.busy = True
        self.graph = self._record()

    def _record(self) -> torch.cuda.CUDAGraph:
        """The turn, run twice beside everything else, so that its kernels are compiled, and then recorded."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.turn()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.turn()
        return graph

    def turns(self, most: int) -> int:
        count = min(TOGETHER, most)
        for _ in range(count):
            self.graph.replay()
        return count

    def close(self) -> None:
        self.board.live.fill_(False)
        self.busy = False


def open_captured(model: Any, memory: Any, request: Request, *, lanes: int) -> CapturedLanes:
    """Empty lanes for the sentences of a request, at least so many, recorded before or now."""
    shape = shape_of(request, lanes)
    shape = shape._replace(
        lanes=power_of_two(lanes), room=power_of_two(shape.room, least=32), prefix=power_of_two(shape.prefix)
    )
    room = power_of_two(request.room, least=32)
    if isinstance(memory, Memory):
        memory = memory.padded(power_of_two(memory.states.size(1), least=16))
        source = memory.states.size(1)
    else:
        source = 0
    # A recording reads where the tensors lay.
    key = (shape, room, source, request.config.model_dump_json(), request.never, addresses(model))
    with _lock:
        kept = _kept.setdefault(model, OrderedDict())
        if key in kept and not kept[key].busy:
            kept.move_to_end(key)
            found = kept[key]
            found.busy = True
            found.rows.turn_to(memory)
            return found
        for old in [old for old, other in kept.items() if not other.busy][: max(0, len(kept) - KEPT + 1)]:
            del kept[old]
        kept[key] = CapturedLanes(model, memory, shape, request, room=room)
        return kept[key]


def most_lanes(width: int) -> int:
    """A power of two, so that a full house has the shape of a recording."""
    return 1 << max(0, (MOST_ROWS["cuda"] // width).bit_length() - 1)


def can_capture(model: Any, request: Request) -> bool:
    """Whether a turn can be recorded: a network on a GPU, with states of fixed shape, that does not learn just now."""
    return request.device.type == "cuda" and is_fixed(model) and isinstance(model, nn.Module) and not model.training
