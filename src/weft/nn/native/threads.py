"""torch's own thread pool, for C that runs in threads. A second pool would compete with it for the cores."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def parallel() -> ctypes.c_void_p:
    """The function that runs another in every thread; NULL where torch has no such pool."""
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, ctypes.c_void_p)
    except AttributeError:
        return ctypes.c_void_p(None)
