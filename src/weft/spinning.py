"""How long OpenMP threads spin at a barrier before they sleep.

A thread that spins keeps its core from the thread that it waits for, whenever another process holds one of the cores.
Training then takes up to 40 times as long. A short spin is as fast on an idle machine. The runtimes read these
variables when they are loaded, which is when torch is imported, so `import weft` sets them.
"""

from __future__ import annotations

import os
from typing import Final

SPIN_COUNT: Final = 10_000
"""Turns of the waiting loop of libgomp, about 10 to 30 µs."""

DEFAULTS: Final = {"GOMP_SPINCOUNT": str(SPIN_COUNT), "KMP_BLOCKTIME": "0"}
"""For GNU's runtime; for LLVM's and Intel's, in milliseconds, where 1 is already 100 times as long."""

CHOICES: Final = (*DEFAULTS, "OMP_WAIT_POLICY")
"""Variables by which a user decides; if any is set, none is changed."""


def bound_spinning() -> None:
    """Set the variables for the runtimes that are still to be loaded, unless the user has set one of them."""
    if not any(name in os.environ for name in CHOICES):
        os.environ.update(DEFAULTS)


def describe_spinning() -> str:
    """The variables that are set, for `weft doctor`."""
    return ", ".join(f"{name}={os.environ[name]}" for name in CHOICES if name in os.environ)
