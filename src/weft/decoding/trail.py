"""Reading hypotheses back from the board: from each end along the back pointers to the first token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weft.decoding.board import Board
from weft.decoding.hypothesis import Hypothesis, best_first


class End(NamedTuple):
    """Where a hypothesis stops: a place of a step."""

    step: int
    place: int
    finished: bool


class Lane(NamedTuple):
    """What the board holds of one sentence, as Python numbers; attention stays a tensor (steps, K, S)."""

    first: int
    step: int
    sums: list[float]
    best: list[float]
    best_step: list[int]
    best_place: list[int]
    trail: list[list[int]]
    logs: list[list[float]]
    attention: Tensor | None

    def ends(self, n_best: int) -> list[End]:
        """The best that have ended; where these are too few, those that the limit cut fill up."""
        places = zip(self.best, self.best_step, self.best_place, strict=True)
        ended = [End(step, place, True) for score, step, place in places if score > -torch.inf]
        cut = [End(self.step - 1, place, False) for place, total in enumerate(self.sums) if total > -torch.inf]
        return (ended + cut)[:n_best]

    def read(self, end: End, length_penalty: float) -> Hypothesis:
        """The hypothesis that stops there, without its prefix."""
        width, place = len(self.trail[0]), end.place
        tokens, logs, path, attention = [], [], [], []
        for step in range(end.step, self.first - 1, -1):
            token, before = divmod(self.trail[step][place], width)
            tokens.append(token)
            logs.append(self.logs[step][place])
            path.append(place)
            if self.attention is not None:
                attention.append(self.attention[step, before])
            place = before
        said = tokens[:0:-1] if end.finished else tokens[::-1]
        score = sum(reversed(logs)) / len(logs) ** length_penalty
        stacked = torch.stack(attention[::-1]) if attention else None
        return Hypothesis(tuple(said), score, tuple(logs[::-1]), end.finished, stacked, tuple(path[::-1]))

    def hypotheses(self, n_best: int, length_penalty: float) -> list[Hypothesis]:
        """The n_best of the sentence, best first."""
        return best_first(self.read(end, length_penalty) for end in self.ends(n_best))


def read_lanes(board: Board, lanes: Tensor) -> list[Lane]:
    """What those lanes (n,) hold now, moved off the device together."""
    steps = board.step[lanes]
    longest = int(steps.max())
    columns = [board.first[lanes], steps, board.sums[lanes], board.best[lanes]]
    columns += [board.best_step[lanes], board.best_place[lanes]]
    columns += [board.trail[lanes, :longest], board.logs[lanes, :longest]]
    attention = [None] * lanes.numel() if board.attention is None else board.attention[lanes, :longest].cpu().unbind()
    return [Lane(*values) for values in zip(*(column.tolist() for column in columns), attention, strict=True)]
