"""What a search knows, in tensors of fixed shape beside the model: A lanes, a sentence in each, K hypotheses of each.

Everything is written in place and nothing is asked of the device, so that a step can be recorded and replayed. What was
written is a trail of back pointers: nothing is copied when hypotheses fork, change places or end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.request import Request
from weft.decoding.watch import Watch


class Shape(NamedTuple):
    """The sizes of a board. Searches of one shape can use the same one, after each other."""

    lanes: int
    width: int
    """Hypotheses of a sentence, K."""
    n_best: int
    room: int
    """Steps, those of a prefix among them."""
    prefix: int
    """Tokens of the longest prefix, at least 1."""
    draws: bool
    """Whether tokens are drawn: each has its uniform number."""


class Board:
    """All tensors begin with the lane; `live` says which lanes are searching. What is read of a lane that has stopped
    stays as it is, whatever the others do."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        lanes, width, n_best, room, prefix, draws = self.shape = shape
        self.device = device

        def integers(*sizes: int) -> Tensor:
            return torch.zeros(lanes, *sizes, dtype=torch.long, device=device)

        def numbers(*sizes: int, fill: float = 0.0) -> Tensor:
            return torch.full((lanes, *sizes), fill, dtype=dtype, device=device)

        self.live = torch.zeros(lanes, dtype=torch.bool, device=device)
        self.step, self.first, self.limit = integers(), integers(), integers()
        """Steps made; the first that is free, after the prefix; the most free ones."""
        self.prefix = integers(prefix)
        self.tokens = integers(width)
        """What each hypothesis reads next."""
        self.sums = numbers(width, fill=-torch.inf)
        """The log-probability of each hypothesis that goes on; -inf is an empty place."""
        self.best = numbers(n_best, fill=-torch.inf)
        """Scores of the best that have ended, in any order; or when drawing, of each text. -inf is none."""
        self.best_step, self.best_place, self.best_log = integers(n_best), integers(n_best), numbers(n_best)
        """Where those ended: the step of their end token, the place that it extends, and its log-probability."""
        self.ended = integers()
        """How many have ended."""
        self.trail = integers(room + 1, width)
        """Token · K + the place that it extends, for every place of every step; one step more than is read."""
        self.logs = numbers(room + 1, width)
        self.attention: Tensor | None = None
        """(A, room + 1, K, S), once a step has brought some."""
        self.uniforms = torch.zeros(lanes, width, room if draws else 0, dtype=torch.float64, device=device)
        self.lanes = torch.arange(lanes, device=device)
        self.watch: Watch | None = None
        """The constraints of the sentences, where there are any."""

    def admit(self, lanes: Tensor, request: Request, sentences: Tensor) -> None:
        """Sentences (n,) of a request begin in those lanes (n,)."""
        everywhere = lanes.numel() == self.shape.lanes  # all of them in order: what is written then needs no list
        here = slice(None) if everywhere else lanes
        self.live[here] = True
        self.step[here] = 0
        self.first[here] = request.prefix_lengths[sentences]
        self.limit[here] = request.limits[sentences]
        self.prefix[here, : request.prefixes.size(1)] = request.prefixes[sentences]
        self.tokens[here] = request.begins[sentences][:, None]
        self.sums[here] = 0.0 if self.shape.draws else -torch.inf
        self.sums[here, 0] = 0.0
        self.best[here] = -torch.inf
        self.ended[here] = 0
        if request.uniforms is not None:
            self.uniforms[here, :, : request.uniforms.size(2)] = request.uniforms[sentences]
        if request.rules is not None:
            self.watch = self.watch or Watch(self.shape.lanes, self.shape.width)
            self.watch.admit(lanes, [request.rules[sentence] for sentence in sentences.tolist()])

    def keep(self, lanes: Tensor) -> None:
        """Go on with those lanes alone."""
        self.shape = self.shape._replace(lanes=lanes.numel())
        for name, tensor in list(vars(self).items()):
            if isinstance(tensor, Tensor):
                setattr(self, name, tensor[lanes])
        self.lanes = torch.arange(lanes.numel(), device=self.device)
        if self.watch is not None:
            self.watch.keep(lanes)

    def log_probabilities(self, logits: Tensor, request: Request) -> Tensor:
        """logits (A·K, V) -> log-probabilities, -inf for what may not come."""
        every = request.log_probabilities(logits, self.lengths.repeat_interleave(self.shape.width))
        if self.watch is not None:
            self.watch.block(every)
        return every

    @property
    def lengths(self) -> Tensor:
        """(A,) free tokens with the one that comes; not positive inside the prefix."""
        return self.step + 1 - self.first

    @property
    def inside(self) -> Tensor:
        """(A,) whether the token that comes belongs to the prefix."""
        return self.step < self.first

    @property
    def forced(self) -> Tensor:
        """(A,) the token of the prefix that comes, where there is one."""
        column = self.step.clamp(max=self.prefix.size(1) - 1)
        return self.prefix.gather(1, column[:, None]).squeeze(1)

    def note(self, tokens: Tensor, logs: Tensor, places: Tensor, attention: Tensor | None) -> None:
        """One step of every lane: tokens, their log-probabilities and what they extend, (A, K); attention (A·K, S)."""
        self.trail[self.lanes, self.step] = tokens * self.shape.width + places
        self.logs[self.lanes, self.step] = logs.to(self.logs.dtype)
        self.look(attention)
        if self.watch is not None:
            self.watch.move(tokens, places, self.inside)

    def look(self, attention: Tensor | None) -> None:
        """Where the rows of every lane look at this step, (A·K, S), if that is known."""
        if attention is None:
            return
        seen = attention.view(self.shape.lanes, self.shape.width, -1)
        if self.attention is None:
            self.attention = seen.new_zeros(*self.trail.shape, seen.size(2))
        self.attention[self.lanes, self.step] = seen

    def go_on(self, tokens: Tensor, sums: Tensor, stops: Tensor) -> None:
        """What the places (A, K) hold now, and which lanes (A,) stop; those that had stopped stay as they were."""
        was = self.live.clone()
        self.sums.copy_(torch.where(was[:, None], sums.to(self.sums.dtype), self.sums))
        self.tokens.copy_(tokens)
        self.step.add_(was)
        self.live.logical_and_(~stops)
