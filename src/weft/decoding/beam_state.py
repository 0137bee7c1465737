"""The beams of a search, in tensors of fixed shape beside the model: A slots, a sentence in each, K hypotheses of each.

Everything is written in place and the host reads nothing back, so that a step can be recorded and replayed. Texts are
stored as back pointers: nothing is copied when hypotheses fork, change places in the beam or end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.constraint_state import ConstraintState
from weft.decoding.penalties import WrittenTokens
from weft.decoding.request import Request
from weft.decoding.stops import StopState
from weft.text import EOS


class BeamShape(NamedTuple):
    """The sizes of a `BeamState`. Searches of one shape can use the same one, after each other."""

    slots: int
    width: int
    """Hypotheses of a sentence, K."""
    n_best: int
    steps: int
    """The most steps of a sentence, those of its prefix included."""
    prefix: int
    """Tokens of the longest prefix, at least 1."""
    draws: bool
    """Whether tokens are sampled: each then has its uniform number."""


class NextTokens(NamedTuple):
    """The log-probabilities (A·K, V) of the next token."""

    every: Tensor
    """Log-probabilities that the search ranks and draws by: with penalties, and -inf for forbidden tokens."""
    model: Tensor
    """Log-probabilities of the model, without penalties."""
    ending: Tensor | None
    """Whether a token ends the text, where not only the end token does."""


class BeamState:
    """The first dimension of all tensors is the slot; `live` slots are searching. A slot that has stopped does not
    change any more, so it can be read while others search."""

    def __init__(self, shape: BeamShape, device: torch.device, dtype: torch.dtype) -> None:
        slots, width, n_best, steps, prefix, draws = self.shape = shape
        self.device = device

        def integers(*sizes: int) -> Tensor:
            return torch.zeros(slots, *sizes, dtype=torch.long, device=device)

        def numbers(*sizes: int, fill: float = 0.0) -> Tensor:
            return torch.full((slots, *sizes), fill, dtype=dtype, device=device)

        self.live = torch.zeros(slots, dtype=torch.bool, device=device)
        self.step, self.first, self.limit = integers(), integers(), integers()
        """The next step; the first one after the prefix; the most steps after the prefix."""
        self.prefix = integers(prefix)
        self.tokens = integers(width)
        """The token that each hypothesis reads next."""
        self.sums = numbers(width, fill=-torch.inf)
        """The log-probability of each hypothesis that has not ended; -inf in an empty place of the beam."""
        self.best = numbers(n_best, fill=-torch.inf)
        """Scores of the best that have ended, in any order; when sampling, of each text. -inf where there is none."""
        self.best_step, self.best_place, self.best_log = integers(n_best), integers(n_best), numbers(n_best)
        """The end token of each of those: its step, the place in the beam that it extends, and its log-probability."""
        self.best_token = torch.full((slots, n_best), EOS, device=device)
        """That token: the end token, or one that completes a stop string."""
        self.ended = integers()
        """The number of hypotheses that have ended."""
        self.backpointers = integers(steps + 1, width)
        """token · K + the place that it extends, for every place of every step. Slots that have stopped write one step
        past their last."""
        self.logs = numbers(steps + 1, width)
        self.attention: Tensor | None = None
        """(A, steps + 1, K, S), after the first step that returns attention."""
        self.uniforms = torch.zeros(slots, width, steps if draws else 0, dtype=torch.float64, device=device)
        self.slots = torch.arange(slots, device=device)
        self.constraints: ConstraintState | None = None
        """The progress of the sentences with their constraints, where there are any."""
        self.stop_nodes: Tensor | None = None
        """(A, K) what each hypothesis has of the stop strings, where there are any."""
        self.stops: StopState | None = None
        self.written: WrittenTokens | None = None
        """The tokens that penalties count, where there are any."""

    def admit(self, slots: Tensor, request: Request, sentences: Tensor) -> None:
        """Start sentences (n,) of a request in those slots (n,)."""
        everywhere = slots.numel() == self.shape.slots  # all of them in order, which a slice writes faster
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
        if request.constraints is not None:
            self.constraints = self.constraints or ConstraintState(self.shape.slots, self.shape.width)
            self.constraints.admit(slots, [request.constraints[sentence] for sentence in sentences.tolist()])
        if request.stops is not None:
            if self.stop_nodes is None:
                self.stop_nodes, self.stops = torch.zeros_like(self.tokens), request.stops
            self.stop_nodes[here] = request.stops.starts[sentences][:, None]
        if request.config.penalises:
            self.written = self.written or WrittenTokens(self.shape.slots, self.shape.width)
            self.written.admit(slots, [request.beginnings[sentence] for sentence in sentences.tolist()])

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but those."""
        self.shape = self.shape._replace(slots=slots.numel())
        for name, tensor in list(vars(self).items()):
            if isinstance(tensor, Tensor):
                setattr(self, name, tensor[slots])
        self.slots = torch.arange(slots.numel(), device=self.device)
        if self.constraints is not None:
            self.constraints.keep(slots)
        if self.written is not None:
            self.written.keep(slots)

    def resized(self, shape: BeamShape, kept: Tensor, *, source: int) -> BeamState:
        """A state of a larger shape, or of other slots, whose first slots are those `kept` (n,); attention weights have
        `source` columns."""
        found, count = BeamState(shape, self.device, self.sums.dtype), kept.numel()
        if self.attention is not None:
            found.attention = self.attention.new_zeros(*found.backpointers.shape, source)
        if self.stop_nodes is not None:
            found.stop_nodes, found.stops = torch.zeros_like(found.tokens), self.stops
        for name, tensor in vars(found).items():
            if isinstance(tensor, Tensor) and name != "slots":
                old = getattr(self, name)[kept]
                tensor[(slice(count), *(slice(size) for size in old.shape[1:]))] = old
        if self.constraints is not None:
            found.constraints = self.constraints.resized(shape.slots, kept)
        if self.written is not None:
            found.written = self.written.resized(shape.slots, kept)
        return found

    def next_tokens(self, logits: Tensor, request: Request) -> NextTokens:
        """logits (A·K, V) -> the log-probabilities of the next token."""
        lengths = self.lengths.repeat_interleave(self.shape.width)
        model = every = request.log_probabilities(logits, lengths)
        if self.written is not None:
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            every = request.log_probabilities(self.written.penalise(wide, request.config), lengths)
        if self.constraints is not None:
            self.constraints.block(every)
        if self.stops is None or self.stop_nodes is None:
            return NextTokens(every, model, None)
        ending = self.stops.ending(self.stop_nodes.view(-1))
        may_end = lengths > request.config.min_length
        if self.constraints is not None:
            may_end &= self.constraints.met(self.device)
        # Where a text may not end yet, no token may complete a stop string.
        every = every.masked_fill(ending & ~may_end[:, None], -torch.inf)
        ending[:, EOS] = True
        return NextTokens(every, model, ending)

    @property
    def lengths(self) -> Tensor:
        """(A,) tokens after the prefix, the next one included; not positive inside the prefix."""
        return self.step + 1 - self.first

    @property
    def inside(self) -> Tensor:
        """(A,) whether the next token belongs to the prefix."""
        return self.step < self.first

    @property
    def forced(self) -> Tensor:
        """(A,) the next token of the prefix, where there is one."""
        column = self.step.clamp(max=self.prefix.size(1) - 1)
        return self.prefix.gather(1, column[:, None]).squeeze(1)

    def append(self, tokens: Tensor, logs: Tensor, places: Tensor, attention: Tensor | None) -> None:
        """Store one step: tokens, log-probabilities and the places that they extend, (A, K); attention (A·K, S)."""
        self.backpointers[self.slots, self.step] = tokens * self.shape.width + places
        self.logs[self.slots, self.step] = logs.to(self.logs.dtype)
        self.store_attention(attention)
        if self.constraints is not None:
            self.constraints.move(tokens, places, self.inside)
        if self.written is not None:
            self.written.move(tokens, places, self.inside)
        if self.stops is not None and self.stop_nodes is not None:
            moved = self.stops.read(self.stop_nodes.gather(1, places), tokens)
            self.stop_nodes.copy_(torch.where(self.inside[:, None], self.stop_nodes, moved))

    def store_attention(self, attention: Tensor | None) -> None:
        """Store the attention weights of this step, (A·K, S), if there are any."""
        if attention is None:
            return
        weights = attention.view(self.shape.slots, self.shape.width, -1)
        if self.attention is None:
            self.attention = weights.new_zeros(*self.backpointers.shape, weights.size(2))
        self.attention[self.slots, self.step] = weights

    def advance(self, tokens: Tensor, sums: Tensor, stops: Tensor) -> None:
        """Set the hypotheses (A, K) after the step, and stop some slots (A,); those that had stopped do not change."""
        was = self.live.clone()
        self.sums.copy_(torch.where(was[:, None], sums.to(self.sums.dtype), self.sums))
        self.tokens.copy_(tokens)
        self.step.add_(was)
        self.live.logical_and_(~stops)
