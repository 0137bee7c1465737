"""A training that is killed with SIGKILL, at any moment, and resumed ends as if nothing had happened."""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from safetensors.torch import load_file
from tests.faults.hostile.commands import leave_out_extras

import weft
from weft.run.folder.checkpoint import Checkpoints
from weft.run.folder.manifest import verify

RANDOM_MOMENTS, WRITING_MOMENTS = 12, 8
GIVE_UP = 60.0

CONFIG: dict[str, Any] = {
    "task": "lm",
    "model": {"embedding": 16, "hidden": 16, "dropout": 0.2},
    "train": {"steps": 42, "batch_tokens": 128, "evaluate_every": 10, "checkpoint_every": 6, "average": 2},
}


class Outcome(NamedTuple):
    """What must not depend on interruptions."""

    weights: dict[str, list[float]]
    report: dict[str, Any]
    journal: list[dict[str, Any]]


def outcome(folder: Path) -> Outcome:
    verify(folder)
    times = ("seconds", "tokens_per_second")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    weights = {name: tensor.flatten().tolist() for name, tensor in load_file(folder / "model.safetensors").items()}
    return Outcome(weights, without(report, times), [without(line, times) for line in lines])


def without(table: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def train_plainly(config: dict[str, Any], **options: Any) -> None:
    """Train without what is installed beside the core: drawing curves takes longer than such a run."""
    leave_out_extras()
    weft.train(config, **options)


class Trainer:
    """Starts processes that train; each is forked from one that has imported torch, so that starting takes no time."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.context = multiprocessing.get_context("forkserver")
        # Optimizers import torch._dynamo when they are first used, which takes longer than the training.
        self.context.set_forkserver_preload(["torch._dynamo", "weft.run"])

    def start(self, folder: Path) -> multiprocessing.process.BaseProcess:
        options = {"out": folder, "quiet": True, "resume": True}
        process = self.context.Process(target=train_plainly, args=(self.config,), kwargs=options, daemon=True)
        process.start()
        return process

    def to_the_end(self, folder: Path) -> float:
        """Seconds that it takes, from the fork on."""
        began = time.monotonic()
        process = self.start(folder)
        process.join(GIVE_UP)
        assert process.exitcode == 0
        return time.monotonic() - began

    def kill_after(self, folder: Path, seconds: float) -> None:
        process = self.start(folder)
        process.join(seconds)
        process.kill()
        process.join()

    def kill_while_writing(self, folder: Path, number: int) -> bool:
        """Kill it as soon as its checkpoint of that number in this process is being written; False if it was faster."""
        process, seen, until = self.start(folder), 0, time.monotonic() + GIVE_UP
        before: set[str] = set()
        while process.is_alive() and time.monotonic() < until:
            writing = {path.name for path in (folder / "checkpoints").glob(".*.tmp") if "old" not in path.name}
            seen += len(writing - before)
            before = writing
            if seen >= number:
                break
            time.sleep(0.0005)  # a checkpoint takes some milliseconds, and the trainer needs the core
        process.kill()
        process.join()
        return seen >= number and any((folder / "checkpoints").glob(".*.tmp"))


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    draw = random.Random(0)
    lines = [f"the {draw.choice(['cat', 'dog'])} {draw.choice(['sleeps', 'runs'])} {n} times" for n in range(150)]
    path = tmp_path_factory.mktemp("data") / "texts.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return Trainer(CONFIG | {"data": {"train": str(path)}})


@pytest.fixture(scope="module")
def unbroken(trainer, tmp_path_factory):
    """The outcome of a run that nobody disturbed, and the seconds it took."""
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    trainer.to_the_end(folder)  # kernels are built here
    seconds = trainer.to_the_end(folder.with_name("again"))
    assert outcome(folder) == outcome(folder.with_name("again")), "without kills the run is not the same every time"
    return outcome(folder), seconds


def check_whole(folder):
    """No file that counts is damaged, whatever the process was doing."""
    for step in Checkpoints(folder).steps():
        verify(folder / "checkpoints" / str(step))


def test_killed_at_random_moments(trainer, unbroken, tmp_path):
    expected, seconds = unbroken
    draw = random.Random(1)
    for number in range(RANDOM_MOMENTS):
        if number % 3 == 0:
            folder = tmp_path / str(number)
        trainer.kill_after(folder, seconds * draw.uniform(0.2, 0.9))
        check_whole(folder)
        if number % 3 == 2:
            trainer.to_the_end(folder)
            assert outcome(folder) == expected


def test_killed_while_a_checkpoint_is_written(trainer, unbroken, tmp_path):
    expected, _ = unbroken
    hits = 0
    for number in range(WRITING_MOMENTS):
        folder = tmp_path / str(number // 2)
        hits += trainer.kill_while_writing(folder, 1 + number % 4)
        check_whole(folder)
        if number % 2:
            trainer.to_the_end(folder)
            assert outcome(folder) == expected
    assert hits, "no kill came in the middle of a checkpoint, so nothing was tested"


def test_the_unbroken_run_learns(unbroken):
    losses = [line["loss"] for line in unbroken[0].journal if "loss" in line]
    assert losses[-1] < losses[0]
    assert all(math.isfinite(loss) for loss in losses)
