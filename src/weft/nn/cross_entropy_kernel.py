"""The pointwise part of `linear_cross_entropy` on CUDA as one Triton kernel; the plain version is `softmax_losses`.

A program has one row of scores z. It reads it once for the maximum m, Σ exp(z - m) and Σ z, and once more, now from
the cache, to write softmax(z) - q in its place.
"""

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

WIDEST = 32768
"""Scores that a program has at a time."""


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def row_loss(  # type: ignore[no-untyped-def]
    scores, targets, losses, stride, classes, smoothing, DIFFERENTIATE: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    z_row = scores + row * stride
    target = tl.load(targets + row)
    counts = tl.where(target < 0, 0.0, 1.0)
    # A target that is no class gives a loss that is no number, instead of a read from somewhere else.
    chosen = tl.load(z_row + tl.maximum(target, 0), mask=target < classes, other=float("nan")).to(tl.float32)
    columns = tl.arange(0, WIDTH)
    top = float("-inf")
    total = 0.0
    plain_sum = 0.0
    for start in range(0, classes, WIDTH):
        inside = start + columns < classes
        z = tl.load(z_row + start + columns, mask=inside, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(z, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), axis=0)
        plain_sum += tl.sum(tl.where(inside, z, 0.0), axis=0)
        top = higher
    spread = tl.where(smoothing > 0.0, smoothing * plain_sum / classes, 0.0)  # a score may be -inf
    tl.store(losses + row, (top + tl.log(total) - (1.0 - smoothing) * chosen - spread) * counts)
    if DIFFERENTIATE:
        # All scores must be read, the chosen one above too, before the first is overwritten.
        tl.debug_barrier()
        for start in range(0, classes, WIDTH):
            inside = start + columns < classes
            z = tl.load(z_row + start + columns, mask=inside, other=float("-inf")).to(tl.float32)
            gradient = tl.exp(z - top) / total - smoothing / classes
            gradient -= tl.where(start + columns == target, 1.0 - smoothing, 0.0)
            tl.store(z_row + start + columns, (gradient * counts).to(scores.dtype.element_ty), mask=inside)


def softmax_losses(z: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, differentiate: bool = True) -> Tensor:
    """z (n, V), targets (n,) -> losses (n,) in float32; z becomes the gradient of their sum if `differentiate`."""
    losses = torch.empty(len(z), dtype=torch.float32, device=z.device)
    width = min(triton.next_power_of_2(z.size(1)), WIDEST)
    with torch.cuda.device(z.device):  # Triton launches on the current device, not on that of its arguments
        row_loss[(len(z),)](
            z,
            targets.contiguous(),
            losses,
            z.stride(0),
            z.size(1),
            label_smoothing,
            DIFFERENTIATE=differentiate,
            WIDTH=width,
            num_warps=min(32, max(4, width // 512)),
        )
    return losses
