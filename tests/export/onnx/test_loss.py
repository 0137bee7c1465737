"""The score that `--quantization int8` prints is that of an evaluation by weft: so it is for a folder in 32 bits."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.export.onnx.built import build_run, exported, lines
from tests.export.onnx.test_matrix import sections_of

from weft.catalog import TASKS
from weft.errors import DataError
from weft.export.loss import MAX_EXAMPLES, MEASURES, read_examples, spread
from weft.export.onnx.loss import BY_NUMBERS, measure
from weft.run.data_facts import describe_data
from weft.run.folder.files import write_json

EMBED: dict[str, Any] = {"model": {"kind": "skipgram", "embedding": 8}}
SAME = {
    "classify": "accuracy",
    "regress": "rmse",
    "tag": "accuracy",
    "translate": "bleu",
    "caption": "bleu",
    "lm": "perplexity",
    "embed": "spearman",
}
"""The metric of weft that is measured; a masked model is asked for one word of each text, a forecast is scaled."""


def test_every_task_is_measured() -> None:
    assert {*MEASURES, *BY_NUMBERS} == set(TASKS)
    assert set(TASKS) - set(SAME) == {"mask", "forecast"}


@pytest.mark.parametrize("task", SAME)
def test_a_folder_has_the_score_of_its_run(task: str, tmp_path: Path) -> None:
    sections = EMBED if task == "embed" else sections_of(task, "gru")
    if task in ("translate", "caption", "lm"):
        sections = {**sections, "decode": {"max_length": 8, "beam": 2}}
    run = build_run(task, tmp_path, **sections)
    data = run.config.data.train
    if task == "embed":
        words = sorted({word for line in lines() for word in line.split()})
        rows = [f"{one}\t{other}\t{len(one) + number % 3}" for number, (one, other) in enumerate(pairwise(words))]
        data = str(tmp_path / "pairs.tsv")
        Path(data).write_text("\n".join(rows) + "\n", encoding="utf-8")
    exported(run, tmp_path / "out")
    found = measure(run, tmp_path / "out", read_examples(run, data))
    assert found is not None
    name, value = found
    assert name == SAME[task]
    assert value == pytest.approx(run.evaluate(data).metrics[name], rel=1e-4)


@pytest.mark.parametrize("form", ["mask", "forecast direct"])
def test_others_have_a_number(form: str, tmp_path: Path) -> None:
    run = build_run(form.split()[0], tmp_path, **sections_of(form, "gru"))
    exported(run, tmp_path / "out")
    write_json(tmp_path / "report.json", {"data": describe_data(run.config.data, {"train": []})})
    examples = read_examples(run, run.config.data.train if form == "mask" else None)
    found = measure(run, tmp_path / "out", examples)
    assert found is not None
    assert found[1] >= 0


def test_word_vectors_are_measured_on_similarities_alone(tmp_path: Path) -> None:
    run = build_run("embed", tmp_path, **EMBED)
    with pytest.raises(DataError, match="pairs of words with a similarity"):
        read_examples(run, run.config.data.train)


def test_examples_are_of_all_parts_of_a_file() -> None:
    assert spread([1, 2, 3]) == [1, 2, 3]
    found = spread(range(3 * MAX_EXAMPLES + 7))
    assert len(set(found)) == MAX_EXAMPLES
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] >= 3 * MAX_EXAMPLES
