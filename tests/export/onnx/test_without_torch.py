"""The runner needs no torch: where importing it raises, every task is answered as the run answered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.export.onnx.built import assert_like, build_run, exported
from tests.export.onnx.test_answers import READERS, RNN, TRANSFORMER, WORD, tree

from weft.export.onnx.samples import sample_inputs

CODE = """
import json, sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "onnx", "safetensors", "rich", "typer"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Refuses())
from weft.export.onnx import Runner

for folder, inputs in json.load(sys.stdin):
    print(json.dumps(Runner(folder, threads=1).predict(inputs)))
"""

CASES = {
    "translate": tree(RNN, TRANSFORMER) | {"decode": {"max_length": 8}},
    "lm": {"model": RNN, "text": WORD, "decode": {"max_length": 8, "sample": True}},
    **{name: READERS[name][1] for name in ("classify mean", "regress", "tag", "mask", "embed")},
}


def test_every_task_is_answered_where_torch_is_missing(tmp_path: Path) -> None:
    asked, wanted = [], []
    for name, sections in CASES.items():
        task = name.split()[0]
        (tmp_path / task).mkdir()
        run = build_run(task, tmp_path / task, **sections)
        exported(run, tmp_path / task / "out")
        inputs = sample_inputs(run)
        asked.append([str(tmp_path / task / "out"), inputs])
        wanted.append([one.record() for one in run.predict(inputs)])
    asked_text = json.dumps(asked)
    done = subprocess.run([sys.executable, "-c", CODE], input=asked_text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for ours, line in zip(wanted, done.stdout.splitlines(), strict=True):
        assert_like(json.loads(json.dumps(ours)), json.loads(line))
