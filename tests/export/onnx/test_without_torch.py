"""The runner needs onnxruntime, numpy and tokenizers alone: where weft's other packages cannot be imported, every task
is answered as the run answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.export.onnx.built import assert_like, build_run, exported
from tests.export.onnx.test_answers import READERS, RNN, TRANSFORMER, WORD, tree

from weft.catalog import TASKS
from weft.export.onnx.samples import sample_inputs

CODE = """
import json, sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1:]:
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Refuses())
from weft.export.onnx import Runner

for folder, inputs in json.load(sys.stdin):
    print(json.dumps(Runner(folder, threads=1).predict(inputs)))
"""

TABLE = {"date": [f"2021-01-{day:02d}" for day in range(1, 15)], "value": [20 + day % 7 for day in range(14)]}
CASES = {
    "translate": tree(RNN, TRANSFORMER) | {"decode": {"max_length": 8}},
    "lm": {"model": RNN, "text": WORD, "decode": {"max_length": 8, "sample": True}},
    **{name: READERS[name][1] for name in ("classify mean", "regress", "tag", "mask", "embed")},
    "caption": {"model": {"encoder": {"kind": "linear", "width": 8}, "decoder": RNN}, "text": WORD},
    "forecast": READERS["forecast rnn direct"][1],
}


def other_packages() -> set[str]:
    """What weft needs and the runner does not."""
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    names = {re.split(r"[^\w]", one)[0] for one in settings["project"]["dependencies"]}
    return names - {"numpy", "tokenizers"} | {"onnx", "pydantic_core", "transformers", "pandas"}


def test_every_task_is_answered_where_torch_and_others_are_missing(tmp_path: Path) -> None:
    assert {task.split()[0] for task in CASES} == set(TASKS)
    asked, wanted = [], []
    for name, sections in CASES.items():
        task = name.split()[0]
        (tmp_path / task).mkdir()
        run = build_run(task, tmp_path / task, **sections)
        exported(run, tmp_path / task / "out")
        inputs = TABLE if task == "forecast" else sample_inputs(run)
        asked.append([str(tmp_path / task / "out"), inputs])
        found = run.predict(inputs)
        wanted.append([one.record() for one in (found if isinstance(found, list) else [found])])
    asked_text = json.dumps(asked)
    words = [sys.executable, "-c", CODE, *sorted(other_packages())]
    done = subprocess.run(words, input=asked_text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for ours, line in zip(wanted, done.stdout.splitlines(), strict=True):
        assert_like(json.loads(json.dumps(ours)), json.loads(line))
