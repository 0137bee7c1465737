"""What a search knows, in tensors of fixed shape beside the model: A slots, a sentence in each, K hypotheses of each.

Everything is written in place and nothing is asked of the device, so that a step can be recorded and replayed. What was
written is a backpointers of back pointers: nothing is copied when hypotheses fork, change places or end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.constraint_state import ConstraintState
from weft.decoding.request import Request


class Shape(NamedTuple):
    """The sizes of a beams. Searches of one shape can use the same one, after each other."""

    slots: int
    width: int
    """Hypotheses of a sentence, K."""
    n_best: int
    room: int
    """Steps, those of a prefix among them."""
    prefix: int
    """Tokens of the longest prefix, at least 1."""
    draws: bool
    """Whether tokens are drawn: each has its uniform number."""


class BeamState:
    """All tensors begin with the slot; `live` says which slots are searching. What is read of a slot that has stopped
    stays as it is, whatever the others do."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        slots, width, n_best, room, prefix, draws = self.shape = shape
        self.device = device

        def integers(*sizes: int) -> Tensor:
            return torch.zeros(slots, *sizes, dtype=torch.long, device=device)

        def numbers(*sizes: int, fill: float = 0.0) -> Tensor:
            return torch.full((slots, *sizes), fill, dtype=dtype, device=device)

        self.live = torch.zeros(slots, dtype=torch.bool, device=device)
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
        self.backpointers = integers(room + 1, width)
        """Token · K + the place that it extends, for every place of every step; one step more than is read."""
        self.logs = numbers(room + 1, width)
        self.attention: Tensor | None = None
        """(A, room + 1, K, S), once a step has brought some."""
        self.uniforms = torch.zeros(slots, width, room if draws else 0, dtype=torch.float64, device=device)
        self.slots = torch.arange(slots, device=device)
        self.constraints: ConstraintState | None = None
        """The constraints of the sentences, where there are any."""

    def admit(self, slots: Tensor, request: Request, sentences: Tensor) -> None:
        """Sentences (n,) of a request begin in those slots (n,)."""
        everywhere = slots.numel() == self.shape.slots  # all of them in order: what is written then needs no list
        here = slice(None) if everywhere else slots
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
            self.constraints = self.constraints or ConstraintState(self.shape.slots, self.shape.width)
            self.constraints.admit(slots, [request.rules[sentence] for sentence in sentences.tolist()])

    def keep(self, slots: Tensor) -> None:
        """Go on with those slots alone."""
        self.shape = self.shape._replace(slots=slots.numel())
        for name, tensor in list(vars(self).items()):
            if isinstance(tensor, Tensor):
                setattr(self, name, tensor[slots])
        self.slots = torch.arange(slots.numel(), device=self.device)
        if self.constraints is not None:
            self.constraints.keep(slots)

    def log_probabilities(self, logits: Tensor, request: Request) -> Tensor:
        """logits (A·K, V) -> log-probabilities, -inf for what may not come."""
        every = request.log_probabilities(logits, self.lengths.repeat_interleave(self.shape.width))
        if self.constraints is not None:
            self.constraints.block(every)
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
        """One step of every slot: tokens, their log-probabilities and what they extend, (A, K); attention (A·K, S)."""
        self.backpointers[self.slots, self.step] = tokens * self.shape.width + places
        self.logs[self.slots, self.step] = logs.to(self.logs.dtype)
        self.look(attention)
        if self.constraints is not None:
            self.constraints.move(tokens, places, self.inside)

    def look(self, attention: Tensor | None) -> None:
        """Where the rows of every slot look at this step, (A·K, S), if that is known."""
        if attention is None:
            return
        seen = attention.view(self.shape.slots, self.shape.width, -1)
        if self.attention is None:
            self.attention = seen.new_zeros(*self.backpointers.shape, seen.size(2))
        self.attention[self.slots, self.step] = seen

    def go_on(self, tokens: Tensor, sums: Tensor, stops: Tensor) -> None:
        """What the places (A, K) hold now, and which slots (A,) stop; those that had stopped stay as they were."""
        was = self.live.clone()
        self.sums.copy_(torch.where(was[:, None], sums.to(self.sums.dtype), self.sums))
        self.tokens.copy_(tokens)
        self.step.add_(was)
        self.live.logical_and_(~stops)
