"""One training at a time in a process: seeds, threads and the ways of computing belong to the process as a whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import RunError

_training = threading.Lock()


@contextmanager
def only_training() -> Iterator[None]:
    """Hold the process's one place for a training; a second one is refused, whichever thread it comes from."""
    held = _training  # a child that is forked meanwhile has a place of its own, and must not give up another's
    if not held.acquire(blocking=False):
        what = "another training runs in this process, and they would draw from the same random numbers"
        raise RunError(what, cure="start a process for each, or train one after the other")
    try:
        yield
    finally:
        held.release()


def _renew() -> None:
    global _training
    _training = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # nobody trains in a new process
