"""A step of beam search on a GPU, in two kernels: see beam_gpu_kernel.py; the plain version is beam.py."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from weft.decoding.beam_state import BeamState
from weft.decoding.request import Request
from weft.nn.kernels import HAS_TRITON, power_of_two
from weft.text import EOS

PART_TOKENS: Final = 1024
"""Tokens of a part of the vocabulary, which one program reads."""

WARPS_PER_PART: Final = 1
"""Several warps would have to synchronise to find a maximum."""

MAX_WIDTH: Final = 8
"""The most hypotheses of a slot."""

MAX_CANDIDATES: Final = 16384
"""The most candidates of a slot: one program holds all of them."""


def serves(beams: BeamState, logits: Tensor) -> bool:
    """Whether the kernels can run this search."""
    width, parts = power_of_two(beams.shape.width), power_of_two(-(-logits.size(1) // PART_TOKENS))
    fits = beams.shape.width <= MAX_WIDTH and width * width * parts <= MAX_CANDIDATES
    plain = logits.stride(1) == 1 and beams.sums.dtype == torch.float32
    return HAS_TRITON and logits.is_cuda and fits and plain


class GpuBeam:
    """The buffers that the kernels need beside the beams, for a vocabulary of one size."""

    def __init__(self, beams: BeamState, request: Request, vocabulary: int) -> None:
        self.beams, self.config = beams, request.config
        slots, width = beams.shape.slots, beams.shape.width
        self.parts, self.padded = -(-vocabulary // PART_TOKENS), power_of_two(width)
        rows, device = slots * width, beams.device
        self.banned = torch.zeros(vocabulary, dtype=torch.int8, device=device)
        self.banned[request.forbidden] = 1
        self.top = torch.full((rows, self.parts, self.padded), -torch.inf, device=device)
        self.ids = torch.zeros((rows, self.parts, self.padded), dtype=torch.long, device=device)
        self.highest, self.totals = (torch.zeros(rows, self.parts, device=device) for _ in range(2))
        self.end = torch.zeros(rows, device=device)
        self.rows = torch.zeros(rows, dtype=torch.long, device=device)

    def __call__(self, logits: Tensor) -> Tensor:
        """logits (A·K, V) -> the row (A·K,) that each row continues. The beams are advanced by one step."""
        from weft.decoding.beam_gpu_kernel import advance, pick

        beams, shape = self.beams, self.beams.shape
        pick[(logits.size(0), self.parts)](
            logits, self.banned, beams.step, beams.first, self.top, self.ids, self.highest, self.totals, self.end,
            logits.size(1), logits.stride(0), self.config.min_length, EOS,
            K=shape.width, KP=self.padded, BLOCK=PART_TOKENS, num_warps=WARPS_PER_PART,
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
