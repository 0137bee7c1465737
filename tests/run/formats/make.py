"""Makes the folders that test_formats.py keeps: a small run of every task, and what it answers.

    python -m tests.run.formats.make

writes `FORMAT/TASK` beside this file, where FORMAT is the current version of the format, and refuses to replace folders
that are there: those of a released format never change.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import weft
from weft.documents import FORMAT_VERSION, to_json
from weft.run import Run

HERE = Path(__file__).parent
ANSWERS = "answers.json"
KEPT = ("config.json", "model.safetensors", "manifest.json", "labels.json", "statistics.json")
WORDS = ("red", "blue", "cat", "dog")

SMALL = {"kind": "rnn", "embedding": 2, "hidden": 2, "layers": 1, "dropout": 0.0}
SIDES = {"encoder": {**SMALL, "cell": "gru"}, "decoder": {**SMALL, "cell": "gru"}}
TRAIN = {"steps": 2, "batch_tokens": 64, "threads": 1, "device": "cpu"}


def _lines(form: Callable[[int], str]) -> str:
    return "".join(f"{form(number)}\n" for number in range(24))


def _word(number: int) -> str:
    return WORDS[number % len(WORDS)]


def _kind(number: int) -> str:
    return "colour" if number % len(WORDS) < 2 else "animal"


FILES: dict[str, tuple[str, str]] = {
    "lm": ("data.txt", _lines(lambda n: f"the {_word(n)} is {n}")),
    "classify": ("data.tsv", "text\tlabel\n" + _lines(lambda n: f"the {_word(n)} is {n}\t{_kind(n)}")),
    "regress": ("data.tsv", "text\tlabel\n" + _lines(lambda n: f"the {_word(n)} is {n}\t{n / 2}")),
    "tag": ("data.txt", _lines(lambda n: f"the DET\n{_word(n)} {_kind(n)}\n{n} NUM\n")),
    "translate": ("data.tsv", _lines(lambda n: f"the {_word(n)} {n}\tle {_word(n)[::-1]} {n}")),
    "mask": ("data.txt", _lines(lambda n: f"the {_word(n)} is {n}")),
    "embed": ("data.txt", _lines(lambda n: f"the {_word(n)} is {n}")),
    "forecast": ("data.csv", "step,value\n" + _lines(lambda n: f"{n},{n % 4 + n / 10}")),
    "caption": ("data.jsonl", _lines(lambda n: to_json({"vectors": [n % 2, 1], "caption": f"a {_word(n)} {n}"}))),
}
"""A file of each task."""

MODELS: dict[str, dict[str, Any]] = {
    "translate": SIDES,
    "tag": {**SMALL, "characters": 4},
    "caption": {"decoder": {**SMALL, "cell": "gru"}},
    "embed": {"embedding": 2},
    "forecast": {"kind": "rnn", "hidden": 2, "layers": 1},
}
DATA: dict[str, dict[str, Any]] = {
    "forecast": {"horizon": 2, "history": 4, "season": 4, "time": "step", "target": "value"},
    "caption": {"features": "vectors"},
    "tag": {"column": 1},
}
INPUTS: dict[str, list[Any]] = {
    "lm": ["the red", ""],
    "mask": ["the <mask> is 3"],
    "tag": ["the red 3", "cat"],
    "embed": [],
    "forecast": [],
    "caption": [{"vectors": [0, 1]}, {"vectors": [1, 1]}],
}
TEXTS = ["the red is 3", "cat and a word that nobody knows"]


def answers(task: str, run: Run) -> Any:
    """What a run says to the inputs of its task, as plain values."""
    if task == "embed":
        return {word: [round(float(value), 6) for value in run.embed([word])[0]] for word in WORDS}
    if task == "forecast":
        steps = {"step": list(range(24)), "value": [number % 4 + number / 10 for number in range(24)]}
        return [one.record() for one in run.predict(steps)]
    inputs = INPUTS.get(task, TEXTS)
    return [one.record() for one in run.predict(inputs, **({"max_length": 5} if run.task.writes else {}))]


def make(task: str, out: Path) -> None:
    """Train a run, and keep what loading needs with its answers."""
    with tempfile.TemporaryDirectory() as folder:
        name, content = FILES[task]
        path = Path(folder, name)
        path.write_text(content, encoding="utf-8")
        data = {"train": str(path), "valid": str(path), **DATA.get(task, {})}
        if task == "forecast":
            data.pop("valid")
        text = {} if task == "forecast" else {"text": {"kind": "word", "min_count": 1}}
        text = {"text": {"kind": "bpe", "size": 270}} if task == "lm" else text
        config = {"task": task, "data": data, "model": MODELS.get(task, SMALL), "train": TRAIN, **text}
        run = weft.train(config, out=Path(folder, "run"), quiet=True)
        out.mkdir(parents=True)
        for file in sorted(run.folder.iterdir()):
            if file.name in KEPT or file.name.startswith("tokenizer"):
                shutil.copy(file, out)
        (out / ANSWERS).write_text(to_json(answers(task, weft.load(out)), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for task in sys.argv[1:] or FILES:
        make(task, HERE / str(FORMAT_VERSION) / task)
        print(task, json.loads((HERE / str(FORMAT_VERSION) / task / ANSWERS).read_text(encoding="utf-8")))
