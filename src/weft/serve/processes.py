"""Several processes behind one port: forked from a small parent that loads no model, and that starts those that die.

All of them accept from the one socket that the parent has opened, so that a connection goes to a process that is free,
and none is lost while one of them ends.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from weft.errors import Fault
from weft.serve.listening import Listener
from weft.serve.logs import log, start_logging
from weft.serve.settings import ServerSettings

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
READY: Final = b"1"

RESTART_SECONDS: Final = 1.0
"""A process that has died is started again after this time, so that one that cannot work does not fill the log."""


def cores() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


Report = Callable[[BaseException], int]
"""Prints an error, and returns the exit code for it."""


def run_workers(settings: ServerSettings, listener: Listener, *, on_ready: Callable[[], None], report: Report) -> int:
    """Serve with `settings.workers` processes until SIGTERM or Ctrl-C -> the exit code."""
    if not hasattr(os, "fork"):
        raise Fault("several processes need a system with fork", where="--workers", cure="--workers 1")
    folder = tempfile.mkdtemp(prefix="weft-metrics-")
    os.environ[FOLDER_VARIABLE] = folder  # before prometheus_client is imported in any process
    try:
        return Parent(settings, listener, report).run(on_ready)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Parent:
    """Starts, counts and ends the processes."""

    def __init__(self, settings: ServerSettings, listener: Listener, report: Report) -> None:
        self.settings, self.listener, self.report = settings, listener, report
        self.children: set[int] = set()
        self.ending = False
        self.failed = False

    def run(self, on_ready: Callable[[], None]) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        # The first one reports a run that cannot be loaded; the others are started only then.
        code = self._start_and_wait()
        if code is not None:
            return code
        for _ in range(self.settings.workers - 1):
            self._start()
        start_logging()
        if not self.ending:
            on_ready()
        while self.children:
            pid, status = self._reap()
            if pid is None:
                continue
            self.children.discard(pid)
            _forget(pid)
            code = os.waitstatus_to_exitcode(status)
            if self.ending:
                self.failed |= code not in (0, -signal.SIGTERM)  # one that had not begun dies of the signal
            else:
                log("worker died", level=logging.ERROR, pid=pid, code=code)
                time.sleep(RESTART_SECONDS)
                if not self.ending:
                    self._start()
        return 1 if self.failed else 0

    def _reap(self) -> tuple[int | None, int]:
        try:
            return os.wait()
        except ChildProcessError:
            self.children.clear()
            return None, 0

    def _start(self, pipe: int | None = None) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _work(self.settings, self.listener, pipe, self.report)
        self.children.add(pid)
        return pid

    def _start_and_wait(self) -> int | None:
        """Start a process and wait until it answers requests -> its exit code where it has ended instead."""
        read, write = os.pipe()
        pid = self._start(write)
        os.close(write)
        said = b""
        with suppress(InterruptedError):
            said = os.read(read, 1)
        os.close(read)
        if said == READY:
            return None
        _, status = os.waitpid(pid, 0)
        self.children.discard(pid)
        return os.waitstatus_to_exitcode(status) if not self.ending else 0

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.ending = True
        self._send(signal.SIGTERM)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._send(signal.SIGHUP)

    def _send(self, number: int) -> None:
        for pid in self.children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _work(settings: ServerSettings, listener: Listener, pipe: int | None, report: Report) -> NoReturn:
    """Serve in this process, and end it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until `serve` handles it
    code = 1
    try:
        from weft.serve.server import serve

        def ready() -> None:
            if pipe is not None:
                os.write(pipe, READY)
                os.close(pipe)

        # The first process answers probes while it loads; the others leave requests to those that are ready.
        code = serve(settings, listener, on_ready=ready, early=pipe is not None)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        code = report(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget(pid: int) -> None:
    from weft.serve.metrics import forget_process

    forget_process(pid)
