"""The Wilson score interval of a share at 95%.

    centre = (p + z²/2n) / (1 + z²/n)          half = z √(p(1-p)/n + z²/4n²) / (1 + z²/n)          z = 1.96

Unlike p ± z √(p(1-p)/n) it has a width where all are right, and stays within 0 and 1 (Wilson, 1927).
"""

from __future__ import annotations

import math
from typing import NamedTuple

Z = 1.959964
"""95% of a normal distribution lie within so many standard deviations."""


class ShareInterval(NamedTuple):
    """The bounds of a share."""

    low: float
    high: float


def wilson(right: int, count: int) -> ShareInterval:
    """The interval of `right` out of `count`; everything is possible where nothing was counted."""
    if not count:
        return ShareInterval(0.0, 1.0)
    share, weight = right / count, 1 + Z * Z / count
    centre = (share + Z * Z / (2 * count)) / weight
    half = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count)) / weight
    return ShareInterval(max(0.0, centre - half), min(1.0, centre + half))
