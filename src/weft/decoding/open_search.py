"""An open search: sentences of further requests join it while it runs, so that none is delayed until a batch ends.

All requests of one open search have the same settings; prompts, lengths, seeds and limits are their own. The slots
grow with the sentences that come, and free ones are dropped when most are free.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import torch

from weft.decoding.config import DecodeConfig
from weft.decoding.request import Request, send
from weft.decoding.search import Ended, Queued, Running, Search
from weft.decoding.slots import MAX_ROWS
from weft.models.stepper import FixedStepper, Stepper, is_fixed
from weft.nn.kernels import power_of_two
from weft.nn.native.packed_linear import PackedWeights

MIN_FREE_SHARE: Final = 3 / 4
"""Free slots are dropped when this share of all slots is free: others may come for them soon."""


class OpenSearch:
    """A search that begins with a first request and runs until every sentence that has joined it has ended."""

    def __init__(
        self, model: Stepper | FixedStepper, *, most: int, attention: bool, packed: PackedWeights | None = None
    ) -> None:
        """`most` sentences run together (`most_together`); `packed` holds the packed weights of the model from one
        search to the next, while no weights change."""
        self.model, self.most, self.attention, self.packed = model, most, attention, packed
        self.search: Search | None = None
        self.joined = 0

    @property
    def active(self) -> int:
        """The number of sentences that have joined and not ended."""
        return 0 if self.search is None else self.search.active + len(self.search.queue)

    @property
    def vacancies(self) -> int:
        """The number of sentences that can join now."""
        if self.search is None:
            return self.most
        if not is_fixed(self.model) or self.search.queue:
            return 0
        if not self.search.slots.resizes:
            return len(self.search.running) - self.search.active
        return self.most - self.search.active

    def fits(self, memory: Any, request: Request) -> bool:
        """Whether the sentences of a request can join now; if not, they can when the search has ended."""
        if self.search is None:
            return True
        slots = self.search.slots
        return request.count <= self.vacancies and (slots.resizes or slots.fits(memory, request))

    @torch.inference_mode()
    def join(self, memory: Any, request: Request, *, expected: int = 1) -> range:
        """Begin the sentences of a request -> their numbers. Its settings must be those of the first. With the first,
        slots are opened for so many sentences as are `expected` soon, where slots cannot become more."""
        first = 0 if self.search is None else self.joined
        self.joined = first + request.count
        if self.search is None:
            own: dict[str, Any] = {"attention": self.attention, "packed": self.packed, "min_free": MIN_FREE_SHARE}
            self.search = Search(self.model, memory, request, expected=min(expected, self.most), **own)
            return range(first, self.joined)
        search = self.search
        search.queue.extend(Queued(first + number, number, request, memory) for number in range(request.count))
        free = [number for number, one in enumerate(search.running) if one.queued is None]
        if len(free) < request.count or not search.slots.fits(memory, request):
            self._resize(search, search.active + request.count, memory, request)
            free = [number for number, one in enumerate(search.running) if one.queued is None]
        search.admit(free)
        return range(first, self.joined)

    @torch.inference_mode()
    def advance(self, max_steps: int) -> Ended:
        """Run at most `max_steps` steps -> the sentences that have ended."""
        search = self.search
        if search is None:
            return []
        ended = [one for found in search.round(max_steps) for one in found]
        self._tidy(search)
        return ended

    @torch.inference_mode()
    def decided(self, number: int) -> tuple[int, ...]:
        """The first tokens of the text of a running sentence that no later step can change."""
        return () if self.search is None else self.search.decided(number)

    @torch.inference_mode()
    def drop(self, numbers: Collection[int]) -> None:
        """End sentences whose client has gone."""
        search = self.search
        if search is None:
            return
        search.queue = type(search.queue)(one for one in search.queue if one.number not in numbers)
        places = [
            place for place, one in enumerate(search.running) if one.queued is not None and one.queued.number in numbers
        ]
        if places:
            search.slots.beams.live[send(search.places(places), search.request.device)] = False
            for place in places:
                search.running[place].queued = None
        self._tidy(search)

    def close(self) -> None:
        """End the search with all its sentences."""
        if self.search is not None:
            self.search.slots.close()
            self.search = None

    def _tidy(self, search: Search) -> None:
        """Close a search without sentences."""
        if not search.active and not search.queue:
            self.close()

    def _resize(self, search: Search, sentences: int, memory: Any, request: Request) -> None:
        """Make slots for so many sentences, a power of two, which those that run keep."""
        kept = [place for place, one in enumerate(search.running) if one.queued is not None]
        count = max(len(search.running), power_of_two(sentences))
        with search.packed:
            places = send(search.places(kept), request.device)
            search.slots.resize(count * search.groups, places, memory, request)
        search.running = [search.running[place] for place in kept]
        search.running += [Running() for _ in range(count - len(kept))]


def most_together(config: DecodeConfig, device: torch.device) -> int:
    """The most sentences that a step advances together: enough to keep the device busy."""
    return max(1, MAX_ROWS.get(device.type, MAX_ROWS["cpu"]) // (config.width * config.groups))
