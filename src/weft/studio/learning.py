"""The process of the learning playground: it trains one or two small models, and ends with the studio.

    python -m weft.studio.learning

The first line of standard input is the order, each further line a command: pause, resume, step, stop. Standard output
has a JSON object per line: {"event": "update", "data": {…}}. When standard input ends, because the studio ended in any
way, the process ends at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from weft.documents import to_json
from weft.errors import WeftError
from weft.studio.toys import ASK, Example, find_toy

if TYPE_CHECKING:
    from weft.studio.pupil import Pupil

BATCH: Final = 64
SHOWN_EXAMPLES: Final = 8
PROBED_EXAMPLES: Final = 16
MAX_SECONDS: Final = 600.0
"""Seconds of training; those in a pause do not count."""

MAX_PAUSE_SECONDS: Final = 3600.0
LOSS_SECONDS, SCORE_SECONDS, PROBE_SECONDS = 0.1, 0.4, 1.5
"""Time between two reports of the loss, of accuracy with examples, and of gates and gradients."""

Send = Callable[[str, dict[str, Any]], None]


class Control:
    """Commands from the page: the training thread asks `proceed` before every update."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.condition = threading.Condition()
        self.state = "running"
        self.steps = 0

    def command(self, name: str) -> None:
        """Carry out pause, resume, step or stop; a step leaves the training in a pause."""
        with self.condition:
            before = self.state
            if name == "step":
                self.state, self.steps = "paused", self.steps + 1
            else:
                self.state = {"pause": "paused", "resume": "running", "stop": "stopped"}.get(name, self.state)
            if self.state != before and self.state != "stopped":
                self.send("state", {"state": self.state})
            self.condition.notify_all()

    def begin(self) -> None:
        """Send the state in which the training begins; it is a pause if one was requested before."""
        with self.condition:
            if self.state != "stopped":
                self.send("state", {"state": self.state})

    def proceed(self) -> bool:
        """Block while the training is paused; return whether it continues."""
        with self.condition:
            self.condition.wait_for(lambda: self.state != "paused" or self.steps, timeout=MAX_PAUSE_SECONDS)
            if self.state == "paused" and self.steps:
                self.steps -= 1
                return True
            return self.state == "running"


def train(order: Mapping[str, Any], send: Send, control: Control) -> None:
    """Train the models of an order on the same batches, and send what happens."""
    import torch

    from weft.run import import_classes
    from weft.studio.pupil import Pupil

    torch.set_num_threads(1)
    toy = find_toy(order["toy"])
    tests, draw = toy.split(order["size"], order["seed"])
    cells = import_classes(order.get("imports", ()))
    pupils = [Pupil(toy, settings, cells, seed=order["seed"]) for settings in order["models"]]
    reports = [Report(number, pupil, tests, send) for number, pupil in enumerate(pupils)]
    control.begin()
    for report in reports:
        report.send_all(0)
    spent, step = 0.0, 0
    reason = "finished"
    while step < order["steps"]:
        if not control.proceed():
            reason = "stopped"
            break
        began = time.monotonic()
        step += 1
        batch = [draw() for _ in range(BATCH)]
        for report in reports:
            report.add(step, report.pupil.learn(batch), now=control.state == "paused")
        spent += time.monotonic() - began
        if spent > MAX_SECONDS:
            reason = "time"
            break
    for report in reports:
        report.send_all(step)
    said = {"finished": "all updates are done", "stopped": "it was stopped", "time": f"{MAX_SECONDS:g} s are over"}
    send("done", {"reason": reason, "message": said[reason], "step": step})


class Report:
    """Reports of one model to the page: losses often, scores and examples sometimes, gates and gradients seldom."""

    def __init__(self, number: int, pupil: Pupil, tests: Sequence[Example], send: Send) -> None:
        self.number, self.pupil, self.tests, self.send = number, pupil, tests, send
        self.losses: list[float] = []
        self.loss: float | None = None
        self.began = time.monotonic()
        self.sent = dict.fromkeys(("loss", "score", "probe"), self.began)

    def add(self, step: int, loss: float, *, now: bool) -> None:
        """Count an update, and send what is due; `now` sends all."""
        self.losses.append(loss)
        if now:
            self.send_all(step)
        elif self._due("loss", LOSS_SECONDS):
            self._send(step, score=self._due("score", SCORE_SECONDS), probe=self._due("probe", PROBE_SECONDS))

    def send_all(self, step: int) -> None:
        self._send(step, score=True, probe=True)

    def _due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now - self.sent[name] < seconds:
            return False
        self.sent[name] = now
        return True

    def _send(self, step: int, *, score: bool, probe: bool) -> None:
        pupil = self.pupil
        if self.losses:
            self.loss, self.losses = sum(self.losses) / len(self.losses), []
        found: dict[str, Any] = {"model": self.number, "name": pupil.name, "step": step, "loss": self.loss}
        found["seconds"] = round(time.monotonic() - self.began, 2)
        if score:
            found |= {"accuracy": pupil.accuracy(self.tests), "examples": self._examples()}
        if probe:
            found |= self._probe()
        self.send("update", found)

    def _examples(self) -> list[dict[str, Any]]:
        from weft.studio.pupil import show_tokens

        shown = self.tests[:SHOWN_EXAMPLES]
        return [
            {
                "input": show_tokens(test.input),
                "expected": show_tokens(test.answer),
                "answer": show_tokens(answer),
                "right": answer == test.answer,
            }
            for test, answer in zip(shown, self.pupil.answer(shown), strict=True)
        ]

    def _probe(self) -> dict[str, Any]:
        """Return gradient norms by time step, and the mean of each gate at each token of one example."""
        from weft.studio.probes import gate_means

        test = self.tests[0]
        tokens = [*test.input, ASK, *test.answer[:-1]]
        found: dict[str, Any] = {
            "gradients": {"tokens": tokens, "norms": self.pupil.gradient_norms(self.tests[:PROBED_EXAMPLES])}
        }
        gates = gate_means(self.pupil, test)
        return found if gates is None else found | {"gates": gates}


def follow_commands(lines: TextIO, control: Control) -> None:
    """Carry out commands until the studio is gone; then end the process at once, wherever it is."""
    with suppress(OSError, ValueError):
        for line in lines:
            control.command(line.strip())
    os._exit(0)


def main() -> None:
    """Read the order, train, and exit."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what an imported file prints must not come between the events
    lock = threading.Lock()

    def send(event: str, data: dict[str, Any]) -> None:
        with lock:
            out.write(to_json({"event": event, "data": data}) + "\n")
            out.flush()

    order = json.loads(sys.stdin.readline() or "{}")
    control = Control(send)
    threading.Thread(target=follow_commands, args=(sys.stdin, control), daemon=True).start()
    with suppress(OSError, AttributeError):
        os.nice(5)  # the page stays quick
    try:
        train(order, send, control)
    except WeftError as error:
        send("done", {"reason": "failed", "message": str(error)})
    except BrokenPipeError:
        os._exit(0)
    except Exception as error:  # the page shows it; there is no terminal to print to
        said = next(iter(str(error).splitlines()), "")
        send("done", {"reason": "failed", "message": f"{type(error).__name__}: {said:.300}"})


if __name__ == "__main__":
    main()
