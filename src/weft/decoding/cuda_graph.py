"""Search slots on a GPU whose step is recorded once, as a CUDA graph, and replayed: no kernel is launched by Python.

Recordings are cached with the model by the shape of the search. Shapes are rounded up, so that few recordings serve.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import replace
from typing import Any, Final

import torch
from torch import nn

from weft.decoding.backtrack import Backtrack
from weft.decoding.beam_state import BeamShape, BeamState
from weft.decoding.request import Request, send
from weft.decoding.rows import FixedRows
from weft.decoding.slots import MAX_ROWS, Poll, Slots, dtype_of, shape_of
from weft.models.memory import Memory
from weft.models.stepper import FixedStepper, is_fixed
from weft.nn import select_rows
from weft.nn.attention.recording import recording
from weft.nn.cuda_graph import GraphCache, addresses, record
from weft.nn.kernels import power_of_two
from weft.nn.slots import own, write

MAX_CACHED_GRAPHS: Final = 4
"""Recordings kept with one model."""

STEPS_PER_REPLAY: Final = 4
"""Steps queued on the device before the host polls which slots have ended."""

_caches: weakref.WeakKeyDictionary[nn.Module, GraphCache[GraphSlots]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class GraphSlots(Slots):
    """Slots of a rounded shape, in most searches more than there are sentences."""

    shrinks = resizes = False
    polls_ahead = 1  # while the device runs steps, the host reads what ended before them

    def __init__(self, model: FixedStepper, memory: Any, shape: BeamShape, request: Request, *, capacity: int) -> None:
        any_sentence = torch.zeros(shape.slots, dtype=torch.long, device=request.device)
        self.first = own(select_rows(memory, any_sentence))
        """A buffer for the memory of the sentences that a search starts with; `asked` is that for their request."""
        beams = BeamState(shape, request.device, dtype_of(model))
        columns = request.numbers.size(1) - request.prefixes.size(1) + shape.prefix
        numbers = request.numbers.new_zeros(shape.slots, columns)
        uniforms = torch.zeros_like(beams.uniforms) if shape.draws else None
        self.asked = replace(request, numbers=numbers, uniforms=uniforms)
        rows = FixedRows(model, self.first, beams.slots, shape.width, capacity=capacity, attention=False)
        super().__init__(rows, beams, request)
        self.rows: FixedRows = rows
        self.busy = True
        self.copy_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        pool = torch.cuda.graph_pool_handle()  # one for both recordings: they run one after the other
        self.start, _ = record(self._start, pool=pool, before=2)
        self.graph, _ = record(self.step, pool=pool, before=2)

    def _start(self) -> None:
        """Start the first sentences, without their prompts."""
        self.rows.admit(self.beams.slots, self.beams.slots, ())
        self.beams.admit(self.beams.slots, self.asked, self.beams.slots)

    def begin(self, memory: Any, request: Request, sentences: list[int]) -> None:
        """Start sentences of a request in the first slots; those admitted later have a memory that is no longer."""
        slots, count = self.count, len(sentences)
        chosen = send([*sentences, *sentences[:1] * (slots - count)], request.device)
        write(self.first, select_rows(memory, chosen))
        self.asked.numbers[:, : request.numbers.size(1)] = request.numbers[chosen]
        if request.uniforms is not None and self.asked.uniforms is not None:
            self.asked.uniforms[:, :, : request.uniforms.size(2)] = request.uniforms[chosen]
        self.start.replay()
        if count < slots:
            self.beams.live[count:] = False
        self.rows.set_memory(memory)
        self.rows.prefill(self.beams.slots, [request.prompts[sentence] for sentence in sentences])

    def steps(self, max_steps: int) -> int:
        count = min(STEPS_PER_REPLAY, max_steps)
        for _ in range(count):
            self.graph.replay()
        return count

    def read(self, slots: list[int], since: Poll) -> Backtrack:
        # A slot that has stopped does not change, so the copy need not wait for steps after the poll.
        assert since.moment is not None
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(since.moment)
            return super().read(slots, since)

    def close(self) -> None:
        self.beams.live.fill_(False)
        self.busy = False


def open_recorded(model: Any, memory: Any, request: Request, sentences: list[int], *, expected: int = 1) -> GraphSlots:
    """Slots in which these sentences, one for each slot, have started, from the cache or recorded now; enough of them
    for as many sentences as are expected."""
    groups = request.config.groups
    shape = shape_of(request, max(len(sentences), expected * groups))
    shape = shape._replace(
        slots=groups * power_of_two(shape.slots // groups),
        steps=power_of_two(shape.steps, least=32),
        prefix=power_of_two(shape.prefix),
    )
    capacity = power_of_two(request.capacity, least=32)
    if isinstance(memory, Memory):
        memory = memory.padded(power_of_two(memory.states.size(1), least=16))
        source = memory.states.size(1)
    else:
        source = 0
    # A recording reads the addresses at which the tensors lay.
    key = (shape, capacity, source, request.config.model_dump_json(), request.forbidden_ids, addresses(model))
    with _lock:
        if model not in _caches:
            _caches[model] = GraphCache(MAX_CACHED_GRAPHS, busy=lambda slots: slots.busy)
        cache = _caches[model]
        found = cache.get(key)
        if found is None or found.busy:
            cache.make_space()
            found = GraphSlots(model, memory, shape, request, capacity=capacity)
            cache.put(key, found)
        found.busy = True
    found.begin(memory, request, sentences)
    return found


def max_sentences(rows: int) -> int:
    """The most sentences of so many rows each: a power of two, which is the shape of a recording without free slots."""
    return 1 << max(0, (MAX_ROWS["cuda"] // rows).bit_length() - 1)


def can_record(model: Any, request: Request) -> bool:
    """Whether a step can be recorded: a network on a GPU, with states of fixed shape, in evaluation mode. A replayed
    graph calls no attention, so not where its calls are recorded."""
    on_gpu = request.device.type == "cuda" and not recording()
    return on_gpu and is_fixed(model) and isinstance(model, nn.Module) and not model.training
