"""Small pictures inside a chart: arrays of numbers as PNG data URLs."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

VIRIDIS: Final = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
"""Colours of the scheme `MAGNITUDE` in equal steps from 0 to 1."""


def colour_values(values: NDArray[Any], top: float) -> NDArray[np.uint8]:
    """values (H, W) from 0 to `top` -> colours (H, W, 3) of the scheme for magnitudes."""
    stops = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in VIRIDIS], float)
    shares = np.clip(np.asarray(values, float) / max(top, 1e-12), 0, 1) * (len(stops) - 1)
    below = np.minimum(shares.astype(int), len(stops) - 2)
    part = (shares - below)[..., None]
    found: NDArray[np.uint8] = np.rint(stops[below] * (1 - part) + stops[below + 1] * part).astype(np.uint8)
    return found


def pixels_url(colours: NDArray[np.uint8]) -> str:
    """colours (H, W, 3) -> a data URL with a PNG of H rows."""
    height, width, _ = colours.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), colours.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red, green and blue
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")
    content = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
