"""The learning playground as the server sees it: one process that trains, its events, its commands, its end."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from weft.errors import Fault
from weft.serve import Event, Feed, HTTPError
from weft.studio.toys import find_toy, toys

MAX_STEPS: Final = 20_000
MAX_LINE_CHARACTERS: Final = 1 << 20
END_SECONDS: Final = 2.0
"""Time that the process has to end by itself."""

UNWATCHED_SECONDS: Final = 30.0
"""A training that no page has followed for this time is stopped: its browser crashed, or was killed."""

COMMANDS: Final = ("pause", "resume", "step", "stop")
DEFAULT_RATES: Final = {"rnn": 0.01, "transformer": 0.003}

Command = Literal["pause", "resume", "step", "stop"]


class PupilSettings(BaseModel):
    """One model of an order."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["rnn", "transformer"] = "rnn"
    cell: str = Field("lstm", max_length=60)
    hidden: int = Field(64, ge=4, le=128)
    layers: int = Field(1, ge=1, le=3)
    rate: float | None = Field(None, ge=1e-5, le=1.0)


class Order(BaseModel):
    """A training that the page requests."""

    model_config = ConfigDict(extra="forbid")

    models: list[PupilSettings] = Field(min_length=1, max_length=2)
    toy: str = Field(max_length=60)
    size: int | None = None
    steps: int | None = Field(None, ge=1, le=MAX_STEPS)
    seed: int = Field(0, ge=0, le=2**31)
    replace: bool = False
    """Whether a training that runs is ended for this one."""

    def tree(self) -> dict[str, Any]:
        """Return the order with its defaults, for the process; raise where the toy or its size is not possible."""
        toy = find_toy(self.toy)
        models = [
            settings.model_dump() | {"rate": settings.rate or DEFAULT_RATES[settings.kind]} for settings in self.models
        ]
        size = toy.check_size(toy.size.default if self.size is None else self.size)
        return {"models": models, "toy": self.toy, "size": size, "steps": self.steps or toy.steps, "seed": self.seed}


class Training:
    """One process that trains. It ends when its standard input is closed, so also when this process is killed."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.id = secrets.token_hex(8)
        self.feed = Feed()
        # -P: a file of the current folder is not imported in place of a module.
        command = [sys.executable, "-P", "-m", "weft.studio.learning"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self.process = subprocess.Popen(command, text=True, encoding="utf-8", **pipes)
        except OSError as error:
            raise Fault(f"the training cannot be started: {error.strerror or error}") from None
        self.feed.publish("state", {"state": "starting"})
        self._write(json.dumps(order))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.followers, self.lock = 0, threading.Lock()
        self._stop_unless_followed()

    @property
    def running(self) -> bool:
        return self.process.poll() is None and not self.feed.closed

    async def follow(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events with a number greater than `after`, to the last one."""
        with self.lock:
            self.followers += 1
        try:
            async for event in self.feed.follow(after):
                yield event
        finally:
            with self.lock:
                self.followers -= 1
            self._stop_unless_followed()

    def _stop_unless_followed(self) -> None:
        """Stop the process after `UNWATCHED_SECONDS` unless a page follows it then."""

        def stop() -> None:
            if not self.followers:
                self._write("stop")

        timer = threading.Timer(UNWATCHED_SECONDS, stop)
        timer.daemon = True
        if not self.feed.closed:
            timer.start()

    def command(self, name: Command) -> None:
        """Send a command to the process; one that has ended takes none."""
        self._write(name)

    def end(self) -> None:
        """End the process, by force where it does not end by itself."""
        self._write("stop")
        with suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(END_SECONDS)

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):  # it has ended
            assert self.process.stdin is not None
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def _read(self) -> None:
        """Publish the events of the process until it ends."""
        assert self.process.stdout is not None
        done = False
        with suppress(OSError, ValueError):
            while not done and (line := self.process.stdout.readline(MAX_LINE_CHARACTERS)):
                found = json.loads(line)
                self.feed.publish(found["event"], found["data"])
                done = found["event"] == "done"
        if not done:
            self.feed.publish("done", {"reason": "stopped", "message": "the training ended"})
        self.feed.close()
        self.process.wait()


class Playground:
    """At most one training at a time. `cells` returns the names of cells that may be trained."""

    def __init__(self, cells: Callable[[], Sequence[str]], imports: Sequence[str] = ()) -> None:
        self.cells, self.imports = cells, tuple(imports)
        self.training: Training | None = None
        self.lock = threading.Lock()

    def start(self, order: Order) -> str:
        """Start a training and return its id; 409 while another one runs that it does not replace."""
        tree = order.tree()
        names = list(self.cells())
        for settings in order.models:
            if settings.kind == "rnn" and settings.cell not in names:
                raise HTTPError(400, f"{settings.cell!r} is not a cell", cure=f"choose from {', '.join(names)}")
        with self.lock:
            if self.training is not None and self.training.running and not order.replace:
                raise HTTPError(409, "a training runs already", cure="stop it in its page, or replace it")
            if self.training is not None:
                self.training.end()
            self.training = Training(tree | {"imports": self.imports})
            return self.training.id

    def find(self, id: str) -> Training:
        """Return the training of that id; only the newest one is kept."""
        if self.training is None or not secrets.compare_digest(self.training.id.encode(), id.encode()):
            raise HTTPError(404, "there is no such training", cure="start it again")
        return self.training

    def end(self) -> None:
        """End the training that runs."""
        with self.lock:
            if self.training is not None:
                self.training.end()


def describe_toys() -> dict[str, Any]:
    """Return the toys with the bounds of their sizes."""
    return {
        name: {"question": toy.question, "size": toy.size._asdict(), "steps": toy.steps} for name, toy in toys().items()
    }


def describe_settings() -> dict[str, Any]:
    """Return the bounds and defaults of a model and of an order, for the controls of a page."""
    return {
        "kinds": ["rnn", "transformer"],
        "hidden": {"low": 4, "high": 128, "default": 64},
        "layers": {"low": 1, "high": 3, "default": 1},
        "rate": {"low": 1e-5, "high": 1.0, "default": DEFAULT_RATES["rnn"]},
        "rates": DEFAULT_RATES,
        "steps": {"low": 1, "high": MAX_STEPS, "default": 1000},
    }
