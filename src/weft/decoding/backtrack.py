"""Hypotheses from back pointers: from the end of each back to its first token, all of them at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.hypothesis import Hypothesis
from weft.text import EOS


class Ends(NamedTuple):
    """The last step of M hypotheses, each field (M,): slot, step, place in the beam, whether an end follows, the
    log-probability of that end, its token, and the score by which the search has ranked the hypothesis."""

    slots: NDArray[np.int64]
    steps: NDArray[np.int64]
    places: NDArray[np.int64]
    finished: NDArray[np.bool_]
    logs: NDArray[Any]
    tokens: NDArray[np.int64]
    ranks: NDArray[Any]


class Backtrack(NamedTuple):
    """Copies of some slots on the host: backpointers and logs (slots, steps, K), attention (slots, steps, K, S)."""

    first: NDArray[np.int64]
    step: NDArray[np.int64]
    sums: NDArray[Any]
    best: NDArray[Any]
    best_log: NDArray[Any]
    best_step: NDArray[np.int64]
    best_place: NDArray[np.int64]
    best_token: NDArray[np.int64]
    backpointers: NDArray[np.int64]
    logs: NDArray[Any]
    attention: Tensor | None

    def ends(self, n_best: int, length_penalty: float) -> Ends:
        """The best hypotheses of each slot that have ended, then those cut by the limit until there are n_best."""
        width = self.sums.shape[1]
        cut_steps = np.repeat(self.step[:, None] - 1, width, axis=1)
        cut_places = np.broadcast_to(np.arange(width), self.sums.shape)
        there = np.concatenate([self.best > -np.inf, self.sums > -np.inf], axis=1)
        chosen = there & (there.cumsum(axis=1) <= n_best)
        slots, columns = np.nonzero(chosen)
        steps = np.concatenate([self.best_step - 1, cut_steps], axis=1)
        places = np.concatenate([self.best_place, cut_places], axis=1)
        logs = np.concatenate([self.best_log, np.zeros_like(self.sums)], axis=1)
        tokens = np.concatenate([self.best_token, np.full_like(cut_steps, EOS)], axis=1)
        lengths = np.maximum(self.step - self.first, 1)[:, None].astype(np.float64)
        ranks = np.concatenate([self.best, self.sums / lengths**length_penalty], axis=1)
        finished = columns < self.best.shape[1]
        return Ends(slots, steps[chosen], places[chosen], finished, logs[chosen], tokens[chosen], ranks[chosen])

    def hypotheses(self, n_best: int, length_penalty: float, *, ranked: bool = False) -> list[list[Hypothesis]]:
        """The n_best of each slot, in no order; `ranked` if the search has ranked them by other numbers than the
        log-probabilities that it has stored."""
        ends = self.ends(n_best, length_penalty)
        paths, tokens, logs = self._walk(ends)
        found: list[list[Hypothesis]] = [[] for _ in self.step]
        rows = zip(*(part.tolist() for part in (*ends, tokens, logs, paths)), strict=True)
        for number, (slot, step, place, finished, end_log, end, rank, own_tokens, own_logs, own_path) in enumerate(
            rows
        ):
            part = slice(int(self.first[slot]), step + 1)
            said, own, path = own_tokens[part], own_logs[part], own_path[part]
            attention = self._attention(slot, part, paths[number], place if finished else None)
            if finished:
                own, path = [*own, end_log], [*path, place]
            stopped = end != EOS
            one = Hypothesis(
                (*said, end) if stopped else tuple(said),
                sum(own) / len(own) ** length_penalty,
                tuple(own),
                finished,
                attention,
                tuple(path),
                stopped=stopped,
                rank=rank if ranked else None,
            )
            found[slot].append(one)
        return found

    def open_texts(self, live: NDArray[np.bool_]) -> list[tuple[int, ...]]:
        """The texts, as far as they go, of which one will be the best: all hypotheses of live slots (slots,), and the
        best one that has ended."""
        slots, places = np.nonzero((self.sums > -np.inf) & live[:, None])
        none = np.zeros(len(slots))
        tokens = np.full(len(slots), EOS)
        ends = Ends(slots, self.step[slots] - 1, places, none.astype(np.bool_), none, tokens, none)
        if (self.best > -np.inf).any():
            slot, column = divmod(int(self.best.argmax()), self.best.shape[1])
            token = self.best_token[slot, column]
            last = (slot, self.best_step[slot, column] - 1, self.best_place[slot, column], True, 0.0, token, 0.0)
            ends = Ends(*(np.append(part, one) for part, one in zip(ends, last, strict=True)))
        _, walked, _ = self._walk(ends)
        found = []
        parts = (part.tolist() for part in (ends.slots, ends.steps, ends.tokens, walked))
        for slot, step, end, said in zip(*parts, strict=True):
            found.append((*said[self.first[slot] : step + 1], *[end] * (end != EOS)))
        return found

    def _walk(self, ends: Ends) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """The place in the beam that each hypothesis held, its tokens and their log-probabilities, (M, steps)."""
        count, width = self.backpointers.shape[1], self.backpointers.shape[2]
        places = np.zeros((len(ends.slots), count), dtype=np.int64)
        place, before = ends.places, self.backpointers % width
        first_end = ends.steps.min(initial=count)
        for step in range(count - 1, -1, -1) if width > 1 else ():
            places[:, step] = place
            earlier = before[ends.slots, step, place]
            # At steps after its end a hypothesis keeps its place.
            place = earlier if step <= first_end else np.where(step <= ends.steps, earlier, place)
        at = (ends.slots[:, None], np.arange(count), places)
        return places, self.backpointers[at] // width, self.logs[at]

    def _attention(self, slot: int, part: slice, places: NDArray[np.int64], end: int | None) -> Tensor | None:
        """The attention weights of each step: those of the row that it extended. An `end` extends that place, one step
        later."""
        if self.attention is None:
            return None
        steps = np.arange(self.backpointers.shape[1])[part]
        before = self.backpointers[slot, steps, places[part]] % self.backpointers.shape[2]
        if end is not None:
            steps, before = np.append(steps, part.stop), np.append(before, end)
        return self.attention[slot, torch.from_numpy(steps), torch.from_numpy(before)]


def read_slots(beams: BeamState, slots: Tensor) -> Backtrack:
    """Copy the contents of slots (n,) to the host, all integers in one transfer and all floats in another."""
    n_best, (steps, width) = beams.shape.n_best, beams.backpointers.shape[1:]
    bounds = (beams.first[:, None], beams.step[:, None])
    whole = (
        torch.cat([*bounds, beams.best_step, beams.best_place, beams.best_token, beams.backpointers.flatten(1)], dim=1)[
            slots
        ]
        .cpu()
        .numpy()
    )
    real = torch.cat([beams.sums, beams.best, beams.best_log, beams.logs.flatten(1)], dim=1)[slots].cpu().numpy()
    parts = np.split(whole, np.cumsum([1, 1, n_best, n_best, n_best]), axis=1)
    first, step, best_step, best_place, best_token, backpointers = parts
    sums, best, best_log, logs = np.split(real, np.cumsum([width, n_best, n_best]), axis=1)
    longest = int(step.max())
    backpointers, logs = (part.reshape(-1, steps, width)[:, :longest] for part in (backpointers, logs))
    attention = None if beams.attention is None else beams.attention[slots, :longest].cpu()
    return Backtrack(
        first[:, 0], step[:, 0], sums, best, best_log, best_step, best_place, best_token, backpointers, logs, attention
    )
