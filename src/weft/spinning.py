"""Limits how long OpenMP threads spin at a barrier before they sleep.

When another process uses one of the cores, a spinning thread can occupy the core that the thread it waits for needs,
and training takes up to 40 times as long. On an idle machine a short spin is as fast. The runtimes read these variables
when they are loaded, which is when torch is imported, so `import weft` sets them.
"""

from __future__ import annotations

import os
from typing import Final

SPIN_COUNT: Final = 10_000
"""Iterations of libgomp's spin loop, about 10 to 30 µs."""

DEFAULTS: Final = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "KMP_BLOCKTIME": "0"}
"""GNU's runtime counts iterations; LLVM's and Intel's milliseconds, where 1 is already 100 times as long."""

CHOICES: Final = (*DEFAULTS, "OMP_WAIT_POLICY")
"""Variables with which a user controls this; if any is set, none is changed."""


def bound_spinning() -> None:
    """Set the variables for the runtimes that are not yet loaded, unless the user has set one of them."""
    if not any(name in os.environ for name in CHOICES):
        os.environ.update(DEFAULTS)


def describe_spinning() -> str:
    """The variables that are set, for `weft doctor`."""
    return ", ".join(f"{name}={os.environ[name]}" for name in CHOICES if name in os.environ)
