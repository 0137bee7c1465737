"""A step of beam search on a GPU, in two kernels: see beam_kernel.py; the twin in plain torch is beam.py."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.decoding.board import Board
from weft.decoding.request import Request
from weft.nn.kernels import HAS_TRITON, power_of_two
from weft.text import EOS

PART: Final = 1024
"""Tokens of a part of the vocabulary."""

WARPS: Final = 1
"""A part is for one warp: to find a maximum among several, they would have to wait for each other."""

WIDEST: Final = 8
"""Hypotheses and parts beyond which a program cannot hold all candidates of a sentence."""

MOST: Final = 16384
"""Candidates of a sentence that a program can hold."""


def serves(board: Board, logits: Tensor) -> bool:
    """Whether the kernels are made for it."""
    width, parts = power_of_two(board.shape.width), power_of_two(-(-logits.size(1) // PART))
    fits = board.shape.width <= WIDEST and width * width * parts <= MOST
    plain = logits.stride(1) == 1 and board.sums.dtype == torch.float32
    return HAS_TRITON and logits.is_cuda and fits and plain


class FusedBeam:
    """What the kernels need beside the board, for models of one vocabulary."""

    def __init__(self, board: Board, request: Request, vocabulary: int) -> None:
        self.board, self.config = board, request.config
        lanes, width = board.shape.lanes, board.shape.width
        self.parts, self.padded = -(-vocabulary // PART), power_of_two(width)
        rows, device = lanes * width, board.device
        self.banned = torch.zeros(vocabulary, dtype=torch.int8, device=device)
        self.banned[request.forbidden] = 1
        self.top = torch.full((rows, self.parts, self.padded), -torch.inf, device=device)
        self.ids = torch.zeros((rows, self.parts, self.padded), dtype=torch.long, device=device)
        self.highest, self.totals = (torch.zeros(rows, self.parts, device=device) for _ in range(2))
        self.end = torch.zeros(rows, device=device)
        self.rows = torch.zeros(rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor) -> Tensor:
        """logits (A·K, V) -> the row (A·K,) that each row continues now. The board is one step further."""
        from weft.decoding.beam_kernel import advance, pick

        board, shape = self.board, self.board.shape
        pick[(logits.size(0), self.parts)](
            logits, self.banned, board.step, board.first, self.top, self.ids, self.highest, self.totals, self.end,
            logits.size(1), logits.stride(0), self.config.min_length, EOS,
            K=shape.width, KP=self.padded, BLOCK=PART, num_warps=WARPS,
        )  # fmt: skip
        advance[(shape.lanes,)](
            self.top, self.ids, self.highest, self.totals, self.end,
            board.live, board.step, board.first, board.limit, board.prefix, board.tokens, board.sums, board.best,
            board.best_log, board.best_step, board.best_place, board.ended, board.trail, board.logs, self.rows,
            self.parts, board.prefix.size(1), board.trail.stride(0), self.config.length_penalty,
            K=shape.width, KP=self.padded, B=shape.n_best, BP=power_of_two(shape.n_best), CP=power_of_two(self.parts),
            num_warps=4,
        )  # fmt: skip
        return self.rows
