"""A step of beam search on a GPU, in two kernels: see beam_kernel.py; the twin in plain torch is beam.py."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
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


def serves(beams: BeamState, logits: Tensor) -> bool:
    """Whether the kernels are made for it."""
    width, parts = power_of_two(beams.shape.width), power_of_two(-(-logits.size(1) // PART))
    fits = beams.shape.width <= WIDEST and width * width * parts <= MOST
    plain = logits.stride(1) == 1 and beams.sums.dtype == torch.float32
    return HAS_TRITON and logits.is_cuda and fits and plain


class GpuBeam:
    """What the kernels need beside the beams, for models of one vocabulary."""

    def __init__(self, beams: BeamState, request: Request, vocabulary: int) -> None:
        self.beams, self.config = beams, request.config
        slots, width = beams.shape.slots, beams.shape.width
        self.parts, self.padded = -(-vocabulary // PART), power_of_two(width)
        rows, device = slots * width, beams.device
        self.banned = torch.zeros(vocabulary, dtype=torch.int8, device=device)
        self.banned[request.forbidden] = 1
        self.top = torch.full((rows, self.parts, self.padded), -torch.inf, device=device)
        self.ids = torch.zeros((rows, self.parts, self.padded), dtype=torch.long, device=device)
        self.highest, self.totals = (torch.zeros(rows, self.parts, device=device) for _ in range(2))
        self.end = torch.zeros(rows, device=device)
        self.rows = torch.zeros(rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor) -> Tensor:
        """logits (A·K, V) -> the row (A·K,) that each row continues now. The beams is one step further."""
        from weft.decoding.beam_gpu_kernel import advance, pick

        beams, shape = self.beams, self.beams.shape
        pick[(logits.size(0), self.parts)](
            logits, self.banned, beams.step, beams.first, self.top, self.ids, self.highest, self.totals, self.end,
            logits.size(1), logits.stride(0), self.config.min_length, EOS,
            K=shape.width, KP=self.padded, BLOCK=PART, num_warps=WARPS,
        )  # fmt: skip
        advance[(shape.slots,)](
            self.top, self.ids, self.highest, self.totals, self.end,
            beams.live, beams.step, beams.first, beams.limit, beams.prefix, beams.tokens, beams.sums, beams.best,
            beams.best_log, beams.best_step, beams.best_place, beams.ended, beams.backpointers, beams.logs, self.rows,
            self.parts, beams.prefix.size(1), beams.backpointers.stride(0), self.config.length_penalty,
            K=shape.width, KP=self.padded, B=shape.n_best, BP=power_of_two(shape.n_best), CP=power_of_two(self.parts),
            num_warps=4,
        )  # fmt: skip
        return self.rows
