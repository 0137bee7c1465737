"""Lanes on a GPU whose turn was recorded once, as a CUDA graph, and is replayed: nothing waits for Python.

Recordings are kept with the model, one for each shape of search, the shapes rounded up so that they are few.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Final

import torch
from torch import nn

from weft.decoding.board import Board, Shape
from weft.decoding.lanes import MOST_ROWS, Glance, Lanes, dtype_of, shape_of
from weft.decoding.request import Request, send
from weft.decoding.rows import FixedRows
from weft.decoding.trail import Reading
from weft.models.memory import Memory
from weft.models.stepper import FixedStepper, is_fixed
from weft.nn import select_rows
from weft.nn.kernels import power_of_two
from weft.nn.lanes import own, write
from weft.nn.recording import addresses, record

KEPT: Final = 4
"""Recordings of a model; the one that was not used for longest goes first."""

TOGETHER: Final = 4
"""Turns that are made together."""

_kept: weakref.WeakKeyDictionary[nn.Module, OrderedDict[Any, CapturedLanes]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class CapturedLanes(Lanes):
    """Lanes of a rounded shape, most of the time more than there are sentences."""

    shrinks = False
    ahead = 1  # while the device makes turns, the host reads what has ended before them

    def __init__(self, model: FixedStepper, memory: Any, shape: Shape, request: Request, *, room: int) -> None:
        anyone = torch.zeros(shape.lanes, dtype=torch.long, device=request.device)
        self.first = own(select_rows(memory, anyone))
        """Where the memory of the sentences that a search begins with is put, and what is asked of them."""
        board = Board(shape, request.device, dtype_of(model))
        columns = request.numbers.size(1) - request.prefixes.size(1) + shape.prefix
        numbers = request.numbers.new_zeros(shape.lanes, columns)
        uniforms = torch.zeros_like(board.uniforms) if shape.draws else None
        self.asked = replace(request, numbers=numbers, uniforms=uniforms)
        rows = FixedRows(model, self.first, board.lanes, shape.width, room=room, attention=False)
        super().__init__(rows, board, request)
        self.rows: FixedRows = rows
        self.busy = True
        self.beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        pool = torch.cuda.graph_pool_handle()  # of both recordings: one runs after the other
        self.start, _ = record(self._start, pool=pool, before=2)
        self.graph, _ = record(self.turn, pool=pool, before=2)

    def _start(self) -> None:
        """The first sentences begin, before they have read anything."""
        self.rows.admit(self.board.lanes, self.board.lanes, ())
        self.board.admit(self.board.lanes, self.asked, self.board.lanes)

    def begin(self, memory: Any, request: Request, sentences: list[int]) -> None:
        """Sentences of a request begin in the first lanes, and those that come later have the same memory."""
        lanes, count = self.count, len(sentences)
        chosen = send([*sentences, *sentences[:1] * (lanes - count)], request.device)
        write(self.first, select_rows(memory, chosen))
        self.asked.numbers[:, : request.numbers.size(1)] = request.numbers[chosen]
        if request.uniforms is not None and self.asked.uniforms is not None:
            self.asked.uniforms[:, :, : request.uniforms.size(2)] = request.uniforms[chosen]
        self.start.replay()
        if count < lanes:
            self.board.live[count:] = False
        self.rows.turn_to(memory)
        self.rows.read(self.board.lanes, [request.prompts[sentence] for sentence in sentences])

    def turns(self, most: int) -> int:
        count = min(TOGETHER, most)
        for _ in range(count):
            self.graph.replay()
        return count

    def read(self, lanes: list[int], since: Glance) -> Reading:
        # What has stopped stays as it is, so that turns made since then need not be waited for.
        assert since.moment is not None
        with torch.cuda.stream(self.beside):
            self.beside.wait_event(since.moment)
            return super().read(lanes, since)

    def close(self) -> None:
        self.board.live.fill_(False)
        self.busy = False


def open_captured(model: Any, memory: Any, request: Request, sentences: list[int]) -> CapturedLanes:
    """Lanes in which these sentences, one for each lane, have begun, recorded before or now."""
    shape, groups = shape_of(request, len(sentences)), request.config.groups
    shape = shape._replace(
        lanes=groups * power_of_two(shape.lanes // groups),
        room=power_of_two(shape.room, least=32),
        prefix=power_of_two(shape.prefix),
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
            kept[key].busy = True
        else:
            for old in [old for old, other in kept.items() if not other.busy][: max(0, len(kept) - KEPT + 1)]:
                del kept[old]
            kept[key] = CapturedLanes(model, memory, shape, request, room=room)
        found = kept[key]
    found.begin(memory, request, sentences)
    return found


def most_seats(rows: int) -> int:
    """Of so many rows each: a power of two, so that a full house has the shape of a recording."""
    return 1 << max(0, (MOST_ROWS["cuda"] // rows).bit_length() - 1)


def can_capture(model: Any, request: Request) -> bool:
    """Whether a turn can be recorded: a network on a GPU, with states of fixed shape, that does not learn just now."""
    return request.device.type == "cuda" and is_fixed(model) and isinstance(model, nn.Module) and not model.training
