"""Bad input that was once taken for good, or for a mistake of weft's own."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

import weft
from weft.data import BadLines, read_labelled
from weft.errors import DataError, Fault, RunError
from weft.evaluate import Evaluation
from weft.metric_text import show_score
from weft.metrics import Confusion
from weft.run import job

TINY = {"embedding": 8, "hidden": 8}
ROWS = [(f"{word} thing {number}", label) for word, label in (("good", "pos"), ("bad", "neg")) for number in range(12)]


def read(path: Path, **columns: object) -> list[object]:
    return list(read_labelled(str(path), bad=BadLines(skip=False), **columns))  # type: ignore[arg-type]


@pytest.mark.parametrize("rest", ['[{"text": "c", "label": "y"}]', "garbage", '{"text": "c", "label": "y"}'])
def test_text_after_a_json_array_is_an_error_with_its_line(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'[{{"text": "a", "label": "x"}},\n{{"text": "b", "label": "y"}}]\n{rest}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json:3: text after the end of the array"):
        read(path)


def test_one_column_is_not_text_and_label_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,y\n", encoding="utf-8")
    with pytest.raises(DataError, match="text and label are the same column"):
        read(path, text="label")


def test_a_header_with_the_usual_names_is_a_header_whatever_is_chosen_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,y\n", encoding="utf-8")
    assert len(read(path, text=0, label=1)) == 2


def test_an_empty_path_is_no_folder() -> None:
    with pytest.raises(DataError, match="the path is empty"):
        list(read_labelled("", bad=BadLines(skip=False)))


@pytest.mark.skipif(os.name == "nt", reason="names of files are UTF-16 there")
def test_a_folder_name_that_is_no_text_is_no_label(tmp_path: Path) -> None:
    for name in (b"neg", b"p\xffs"):
        folder = tmp_path / os.fsdecode(name)
        folder.mkdir()
        (folder / "1.txt").write_text("a text", encoding="utf-8")
    with pytest.raises(DataError, match="is not UTF-8"):
        read(tmp_path)


@pytest.mark.parametrize("bad", [("\ud800", "pos"), ("a", "\ud800")])
def test_half_a_surrogate_pair_is_no_text(bad: tuple[str, str]) -> None:
    with pytest.raises(DataError, match=r"data\.train\[24\]: the .* has half of a surrogate pair"):
        weft.train({"task": "classify", "data": {"train": [*ROWS, bad]}, "model": TINY}, quiet=True)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_a_model_that_diverges_is_not_the_best(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score may look well where the loss of the same model is no number."""
    rows = ROWS if task == "classify" else [[(word, label) for word in text.split()] for text, label in ROWS]
    tree = {"task": task, "data": {"train": rows}, "model": TINY, "train": {"steps": 4, "evaluate_every": 2}}
    scores = {"loss": math.nan, "accuracy": 1.0}
    monkeypatch.setattr(job, "evaluate", lambda *_, **__: Evaluation(scores, {}))
    with pytest.raises(Fault, match="the validation loss is nan after update 2"):
        weft.train(tree, out=tmp_path / "run", quiet=True)
    with pytest.raises(RunError, match=r"has no manifest\.json"):
        weft.load(tmp_path / "run")


def test_unseen_labels_count_in_macro_f1() -> None:
    confusion = Confusion(("x", "y"))
    confusion.add([-1, 1, 1], [1, 1, 1])
    assert confusion.f1 == pytest.approx(0.4)


def test_an_interval_that_has_no_middle_is_shown_by_its_bounds() -> None:
    details = {"intervals": {"accuracy": (0.2065, 1.0)}, "count": 1, "count_of": "examples"}
    assert show_score("accuracy", 1.0, details) == "100.00% (95% interval 20.6–100.0, 1 example)"
    details = {"intervals": {"accuracy": (0.58, 0.92)}, "count": 20, "count_of": "examples"}
    assert show_score("accuracy", 0.8, details) == "80.00% ± 17.0 (95% interval, 20 examples)"
