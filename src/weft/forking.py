"""A forked process computes with one thread.

A fork copies the memory of a process but only the thread that called it. The OpenMP threads that torch and weft's
kernels use do not exist in the child, so parallel work there would never end. `multiprocessing` forks by default on
Linux; a process that is started with "spawn" or "forkserver" has threads of its own.
"""

from __future__ import annotations

import os
import sys

_forked = False


def compute_alone_after_fork() -> None:
    """Make every later child of this process use one thread, if torch was imported before the fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_begin_alone)


def was_forked() -> bool:
    """Whether this process was forked from one that had imported torch, and must compute with one thread."""
    return _forked


def _begin_alone() -> None:
    global _forked
    if "torch" in sys.modules:
        _forked = True
        sys.modules["torch"].set_num_threads(1)
