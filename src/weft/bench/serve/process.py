"""A server in a process of its own, on the loopback address, that ends with the block that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft.errors import Fault

START_SECONDS: Final = 180.0
END_SECONDS: Final = 60.0


class ServerProcess:
    """`python -m WORDS…`, which prints the address that it listens on; `url` has it."""

    def __init__(self, words: Sequence[str], *, threads: int) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - open until the process has ended
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-m", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            self.process.wait(START_SECONDS)
            self.errors.seek(0)
            said = self.errors.read().decode("utf-8", "replace").strip().splitlines()
            raise Fault(f"did not start: {said[-1] if said else 'without a word'}", where=words[0])
        self.url = "http://" + line.partition("http://")[2].split("/")[0]
        self._wait()

    def _wait(self) -> None:
        """Wait until it answers."""
        ends = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return
            except OSError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.1)

    def memory(self) -> int:
        """The memory of the process and those that it has started, in bytes."""
        pids = [self.process.pid, *_children(self.process.pid)]
        return sum(map(_resident, pids))

    def end(self, how: int = signal.SIGTERM) -> int:
        """End it -> its exit code."""
        self.process.send_signal(how)
        return self.process.wait(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            try:
                self.end()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
