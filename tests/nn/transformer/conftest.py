"""Blocks whose norms and gains are not where they start, so that a mix-up shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import nn

Part = TypeVar("Part", bound=nn.Module)


@pytest.fixture
def jitter() -> Callable[[Part], Part]:
    def move(part: Part) -> Part:
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return part

    torch.manual_seed(0)
    return move
