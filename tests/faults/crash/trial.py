"""A small training that is broken at a file operation, and what its folder is worth afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.crash.shim import Operation, Orders, arm, read_log
from tests.faults.forked import Ended, Forked, command
from tests.faults.hostile.commands import leave_out_extras

SETTINGS = (
    "model.embedding=8",
    "model.hidden=8",
    "model.dropout=0.2",
    "train.steps=12",
    "train.batch_tokens=64",
    "train.evaluate_every=4",
    "train.checkpoint_every=3",
    "train.average=2",
)
TIMES = ("seconds", "tokens_per_second")
WATCHED = Orders()


class Outcome(NamedTuple):
    """What must not depend on interruptions."""

    weights: str
    tokenizer: str
    report: dict[str, Any]
    journal: list[dict[str, Any]]


def outcome(run: Path) -> Outcome:
    hashes = [hashlib.sha256((run / name).read_bytes()).hexdigest() for name in ("model.safetensors", "tokenizer.json")]
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return Outcome(*hashes, _without(report), [_without(line) for line in lines])


def _without(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in TIMES}


class Recovered(NamedTuple):
    """A folder after a break: why it did not load ("" if it did), the update it went on after, and what came of it."""

    said: str
    after: int
    outcome: Outcome | None
    ended: Ended


class Tried:
    """Trials of one kind: how many there were, and what was wrong with which."""

    def __init__(self) -> None:
        self.number, self.faults = 0, list[str]()

    def count(self, where: str, *checks: tuple[bool, str]) -> None:
        """Add a trial; a check that is not met is a fault, with its reason."""
        self.number += 1
        self.faults += [f"{where}: {reason.strip()}" for met, reason in checks if not met]

    def check(self, *, least: int) -> None:
        """Fail the test if anything was wrong, or if there were too few trials to show that nothing is."""
        assert self.number >= least
        assert not self.faults, str(self)

    def __str__(self) -> str:
        told = "".join(f"\n  {fault}" for fault in self.faults)
        return f"{self.number} trials, {len(self.faults)} faults{told}"


class Trials:
    """Trainings, forked from a process with the library of `shim.build`, each in a folder of its own."""

    def __init__(self, forked: Forked, base: Path) -> None:
        self.forked, self.base, self.number = forked, base, 0
        draw = random.Random(0)
        lines = [f"the {draw.choice(['cat', 'dog'])} {draw.choice(['sleeps', 'runs'])} {n} times" for n in range(60)]
        (base / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
        self.words = ["train", "lm", str(base / "texts.txt"), *SETTINGS, "--resume", "--out"]
        self.log = base / "log"

    def fresh(self) -> Path:
        """A new folder, in which a run begins."""
        self.number += 1
        (self.base / str(self.number) / "run").mkdir(parents=True)
        return self.base / str(self.number) / "run"

    def cache(self, run: Path) -> Path:
        """A cache beside a run, with nothing in it but the libraries that all trainings use."""
        folder = run.parent / "cache"
        folder.mkdir(mode=0o700)
        compiled = Path(os.environ["WEFT_CACHE"], "compiled")
        if compiled.is_dir():
            shutil.copytree(compiled, folder / "compiled")
        return folder

    def copy(self, run: Path) -> Path:
        other = self.fresh()
        return Path(shutil.copytree(run, other, dirs_exist_ok=True))

    def remove(self, run: Path) -> None:
        shutil.rmtree(run.parent)

    def train(
        self, run: Path, orders: Orders = WATCHED, *, root: Path | None = None, cache: Path | None = None
    ) -> Ended:
        """Train in a process that is watched below the folder (or `root`), and broken as ordered.

        With a `cache` of its own it keeps tokens there, though there are few.
        """
        arguments = ([*self.words, str(run)], str(root or run), str(self.log), orders, cache is not None)
        variables = {"WEFT_CACHE": str(cache)} if cache else None
        return self.forked.run("tests.faults.crash.trial:train", *arguments, cwd=self.base, variables=variables)

    def spread(self, number: int, *, first: int) -> range:
        """Numbers of about as many operations of the last training, from `first` on, evenly apart."""
        last = max(done.number for done in self.operations())
        return range(first, last, last // number)

    def operations(self) -> list[Operation]:
        """Those of the last training."""
        return list(read_log(self.log))

    def recover(self, run: Path) -> Recovered:
        """Load the folder as it is, predict, and train to the end."""
        ended = self.forked.run("tests.faults.crash.trial:recover", [*self.words, str(run)], str(run), cwd=self.base)
        went_on = re.search(r"goes on after update (\d+)|was finished before .* after (\d+) updates", ended.err)
        after = int(went_on[1] or went_on[2]) if went_on else 0
        return Recovered(ended.out.split("\n")[0], after, outcome(run) if ended.code == 0 else None, ended)


def train_unbroken(trials: Trials) -> Outcome:
    """The outcome of a training that nothing disturbs, which must be the same every time."""
    found = []
    for _ in range(2):
        run = trials.fresh()
        ended = trials.train(run)
        assert ended.code == 0, ended.err
        found.append(outcome(run))
    assert found[0] == found[1], "without a break the run is not the same every time"
    return found[0]


def promised(operations: Iterable[Operation]) -> int:
    """The update whose checkpoint must outlive a loss of power: what comes next had begun when the process ended."""
    whole = found = 0
    for done in operations:
        if done.error or "/checkpoints/" not in done.path:
            continue
        if done.name == "rename" and Path(done.to).name.isdecimal():
            whole = int(Path(done.to).name)
        elif done.name == "mkdir" or (done.name == "rename" and Path(done.path).name.isdecimal()):
            found = whole
    return found


def saved(operations: Iterable[Operation], run: Path) -> bool:
    """Whether a whole model was there by then."""
    return any(done.name == "rename" and done.to == str(run / "manifest.json") for done in operations)


def train(words: list[str], root: str, log: str, orders: list[int], keep: bool) -> int:
    """In a fork: train while the library watches; `keep` the tokens of small files too."""
    import weft.run.data_cache

    leave_out_extras()
    weft.run.data_cache.MIN_CACHED_BYTES = 1 if keep else weft.run.data_cache.MIN_CACHED_BYTES
    arm(root, log, orders)
    return command(words)


def recover(words: list[str], run: str) -> int:
    """In a fork: say in a line why the folder does not load, or nothing if it predicts, and train to the end."""
    import weft
    from weft.errors import RunError

    leave_out_extras()
    try:
        answers = weft.load(run).predict(["the cat"], max_length=2)
        print("" if len(answers) == 1 else "no answer")
    except RunError as error:
        print(str(error))
    return command(words)
