"""Processes that start in milliseconds: forks of one that has imported torch and weft, each with limits of its own.

    with Forked() as forked:
        ended = forked.command("predict", "run", cwd=folder)
        ended.code, ended.err, ended.cpu_seconds, ended.megabytes

The process that forks is started from this file. It reads a JSON object per line and answers with another, and it has
no threads, because nothing is computed in it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import pytest

ROOT = Path(__file__).parents[2]
MEGABYTE, GIBIBYTE = 1 << 20, 1 << 30
COMMAND = "tests.faults.forked:command"

# Imported once for all. Optimizers import torch._dynamo when they are first used.
PRELOADED = (
    "torch._dynamo",
    "weft.run",
    "weft.cli",
    "weft.compare",
    "weft.export",
    "weft.inspect",
    "sacrebleu",
    "conllu",
)


class Ended(NamedTuple):
    """How a process ended: its exit code (or minus the signal that killed it), what it wrote, and what it took."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    megabytes: float

    @property
    def message(self) -> str:
        """What it said on standard error, without the progress of a training."""
        return "\n".join(line for line in self.err.splitlines() if line != "reading the data")


class Forked:
    """The process that forks. `preload` is a library that the dynamic linker puts before libc in it."""

    def __init__(self, *, preload: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
        if sys.platform != "linux":
            pytest.skip("only on Linux can a process that has imported torch be forked safely")
        path = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
        added = {"PYTHONPATH": path, "COLUMNS": "200", "OMP_NUM_THREADS": "1", **(variables or {})}
        if preload:
            added["LD_PRELOAD"] = str(preload)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-m", "tests.faults.forked"]
        self._process = subprocess.Popen(command, text=True, env={**os.environ, **added}, cwd=ROOT, **pipes)

    def run(
        self,
        function: str,
        *arguments: Any,
        cwd: Path,
        seconds: float = 60.0,
        gigabytes: float = 0.0,
        variables: Mapping[str, str] | None = None,
    ) -> Ended:
        """Call "module:function" with plain values in a fork; if it returns a number, that is the exit code.

        After `seconds` by the clock the fork is killed; `gigabytes` limits the memory it can write to.
        """
        order = {
            "function": function,
            "arguments": arguments,
            "cwd": str(cwd),
            "seconds": seconds,
            "bytes": int(gigabytes * GIBIBYTE),
            "variables": dict(variables or {}),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the process that forks is gone"
        return Ended(**json.loads(answer))

    def command(self, *words: str, cwd: Path, **limits: float) -> Ended:
        """The command line of weft."""
        return self.run(COMMAND, words, cwd=cwd, **limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def command(words: Sequence[str]) -> int:
    """`weft` with these words, in this process."""
    from weft.cli import main

    sys.argv = ["weft", *words]
    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(bool(left.code))
    return 0


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Fork once for every order; answer when the fork has ended."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    for line in orders:
        order = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if not child:
                os._exit(_work(order, out, err))
            print(json.dumps(_wait(child, order["seconds"]) | {"out": _read(out), "err": _read(err)}), file=answers)
        answers.flush()


def open_streams() -> None:
    """Python's standard outputs made anew: they remember whether what they wrote to before was a terminal."""
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _work(order: dict[str, Any], out: IO[bytes], err: IO[bytes]) -> int:
    """What a fork does; its exit code."""
    import resource

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    open_streams()
    os.chdir(order["cwd"])
    os.environ.update(order["variables"])
    if order["bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (order["bytes"], order["bytes"]))
    module, name = order["function"].split(":")
    try:
        code = getattr(importlib.import_module(module), name)(*order["arguments"])
    except BaseException:
        traceback.print_exc()
        code = 70
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 74
    return code if isinstance(code, int) else 0


def _wait(child: int, seconds: float) -> dict[str, Any]:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _, status, used = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of one unit of ru_maxrss
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss * unit / MEGABYTE,
    }


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MEGABYTE).decode("utf-8", "backslashreplace")


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
