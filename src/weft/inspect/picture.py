"""Attention over a picture: the gray picture, red where a word attended to."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.data import Picture, read_pixels
from weft.data.images import pillow

PANEL: Final = 168
"""Pixels of the side of the picture of one word."""


def gray_picture(picture: Picture) -> NDArray[np.float64]:
    """Return the gray values (PANEL, PANEL) of a picture."""
    found: NDArray[np.float64] = read_pixels(picture, size=PANEL, channels=1)[..., 0].astype(np.float64)
    return found


def redden(gray: NDArray[np.float64], weights: NDArray[Any], grid: tuple[int, int]) -> NDArray[np.uint8]:
    """gray (P, P) and the weights of a grid of positions -> (P, P, 3): red by the share of the largest weight, smooth
    between positions."""
    images = pillow()
    shares = np.asarray(weights, dtype=np.float32).reshape(grid) / max(float(np.max(weights)), 1e-9)
    resized = images.fromarray(shares).resize((PANEL, PANEL), images.Resampling.BICUBIC)
    heat = np.asarray(resized).clip(0, 1)[..., None]
    red = np.array([230.0, 30.0, 30.0])
    mixed = gray[..., None] * (1 - 0.65 * heat) + red * 0.65 * heat
    found: NDArray[np.uint8] = mixed.clip(0, 255).astype(np.uint8)
    return found
