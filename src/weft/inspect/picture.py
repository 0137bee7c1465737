"""Attention over a picture: for each word of its caption the picture, red where the word attended to."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.data import picture_of, read_pixels
from weft.data.images import pillow
from weft.disk import atomic_write
from weft.errors import ConfigError
from weft.inspect.alignment import Alignment

PANEL: Final = 168
"""Pixels of the side of the picture of one word."""
TEXT_HEIGHT, MARGIN, MAX_COLUMNS = 26, 8, 6


def draw_attention(found: Alignment, source: Any, path: Path) -> None:
    """Write a PNG with a panel for each word: the gray picture, red by the share of the word's largest weight."""
    if found.grid is None:
        raise ConfigError("only attention over a picture can be drawn", where=str(path), cure="leave out --out")
    if path.suffix.lower() != ".png":
        raise ConfigError("is no name of a PNG", where=str(path), cure="end it in .png")
    images = pillow()
    from PIL import ImageDraw, ImageFont

    gray = read_pixels(picture_of(source, place=""), size=PANEL, channels=1)[..., 0].astype(np.float64)
    columns = min(MAX_COLUMNS, len(found.target))
    rows = -(-len(found.target) // columns)
    width, height = PANEL + MARGIN, PANEL + TEXT_HEIGHT + MARGIN
    sheet = images.new("RGB", (columns * width + MARGIN, rows * height + MARGIN), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(16)
    for number, (token, weights) in enumerate(zip(found.target, found.weights, strict=True)):
        left, top = MARGIN + number % columns * width, MARGIN + number // columns * height
        draw.text((left, top), token, fill="black", font=font)
        sheet.paste(images.fromarray(_heat(gray, weights, found.grid)), (left, top + TEXT_HEIGHT))
    file = io.BytesIO()
    sheet.save(file, "png")
    try:
        atomic_write(path, file.getvalue())
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", where=str(path), cure="choose another --out"
        ) from None


def _heat(gray: Any, weights: tuple[float, ...], grid: tuple[int, int]) -> Any:
    """gray (P, P) and the weights of a grid of positions -> (P, P, 3), smooth between positions."""
    images = pillow()
    shares = np.array(weights, dtype=np.float32).reshape(grid) / max(max(weights), 1e-9)
    heat = np.asarray(images.fromarray(shares).resize((PANEL, PANEL), images.Resampling.BICUBIC)).clip(0, 1)[..., None]
    red = np.array([230.0, 30.0, 30.0])
    mixed = gray[..., None] * (1 - 0.65 * heat) + red * 0.65 * heat
    return mixed.clip(0, 255).astype(np.uint8)
