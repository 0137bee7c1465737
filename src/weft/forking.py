"""One thread in a forked process.

A fork copies the memory of a process and only the thread that called it. The other threads of OpenMP, which torch and
our kernels share out work to, are gone in the child, and work that is given to them never ends. `multiprocessing` forks
by default on Linux, so a child computes alone; one that is started with "spawn" or "forkserver" has threads of its own.
"""

from __future__ import annotations

import os
import sys

_forked = False


def compute_alone_after_fork() -> None:
    """From now on a child of this process has one thread, if torch was imported before the fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_begin_alone)


def was_forked() -> bool:
    """Whether this process is the child of one that had torch, so that it must compute with one thread."""
    return _forked


def _begin_alone() -> None:
    global _forked
    if "torch" in sys.modules:
        _forked = True
        sys.modules["torch"].set_num_threads(1)
