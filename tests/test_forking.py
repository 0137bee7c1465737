"""A process that was forked, as `multiprocessing` does by default on Linux, trains and answers with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

GIVE_UP = 120

SCRIPT = """
import json, multiprocessing, sys, warnings
import weft, torch

texts = [f"the {who} {verb} {n} times" for n in range(40) for who in ("cat", "dog") for verb in ("sleeps", "runs")]
config = {
    "task": "lm", "data": {"train": texts}, "model": {"embedding": 8, "hidden": 32}, "decode": {"max_length": 5},
    "train": {"steps": 3, "threads": 2},
}

def work(name, queue):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = weft.train(config, out=name, quiet=True)
    answer = run.predict("the cat", beam=2).text
    queue.put([torch.get_num_threads(), answer, weft.load(name).predict("the cat", beam=2).text,
               [str(line.message) for line in said if "thread" in str(line.message)]])

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    work("parent", queue)
    found = [queue.get()]
    child = context.Process(target=work, args=("child", queue))
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0, child.exitcode
    print(json.dumps([*found, queue.get()]))
"""


def test_a_forked_child_trains_and_answers_like_its_parent(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SCRIPT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "work.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=GIVE_UP
    )
    assert done.returncode == 0, done.stderr
    (threads, answer, again, said), (alone, of_child, of_child_again, told) = json.loads(done.stdout)
    assert (threads, said) == (2, [])
    assert alone == 1
    assert answer == again == of_child == of_child_again
    assert len(told) == 1
    assert "train.threads = 2: a forked process computes with one thread" in told[0]
    assert done.stderr == ""
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("parent", "child")]
    assert names[0] == names[1]
