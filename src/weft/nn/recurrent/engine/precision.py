"""The precision of float32 products on a GPU: that of nn.LSTM, so that equal settings give equal products.

nn.LSTM computes in cuDNN, which follows torch.backends.cudnn.rnn.fp32_precision ("tf32" unless a program changes it);
with cuDNN turned off it follows torch.backends.cuda.matmul.fp32_precision. torch's own products follow the second
alone, so it is set to the first while the engine queues products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import torch
from torch import Tensor

EXACT: Final = "ieee"
FAST: Final = "tf32"


def product_precision() -> str:
    """EXACT or FAST, as nn.LSTM would compute in float32 on a GPU now."""
    setting = torch.backends.cudnn.rnn if torch.backends.cudnn.enabled else torch.backends.cuda.matmul
    return FAST if setting.fp32_precision == FAST else EXACT


def products_as_of_lstm(like: Tensor) -> AbstractContextManager[None]:
    """A scope for products of numbers of this type on this device."""
    if like.device.type != "cuda" or like.dtype != torch.float32:  # the settings take a while to read
        return nullcontext()
    return products_in(product_precision(), like.device)


@contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """Compute torch's float32 products on a GPU with this precision; elsewhere nothing changes.

    The setting is that of the whole process: a product that another thread queues meanwhile has it too.
    """
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    if device.type != "cuda" or (before == FAST) == (precision == FAST):
        yield
        return
    matmul.fp32_precision = precision
    try:
        yield
    finally:
        # "none" means that of torch.backends.fp32_precision, which may be what was read.
        matmul.fp32_precision = "none"
        if matmul.fp32_precision != before:
            matmul.fp32_precision = before
