"""An option of the wrong type is one line that names it, its value and a cure, for every option of every task."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.decoding import DecodeConfig
from weft.errors import ConfigError
from weft.tasks import TASKS

SMALL = {"embedding": 8, "hidden": 8}

TRAINED: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "classify": ("labelled", SMALL, ["the cat"]),
    "tag": ("tagged", SMALL, [["the", "cat"]]),
    "lm": ("texts", SMALL, ["the cat"]),
    "mask": ("texts", SMALL, ["the <mask>"]),
    "translate": ("pairs", {"encoder": SMALL, "decoder": SMALL}, ["a b"]),
    "caption": ("captioned", {"decoder": SMALL}, []),
    "forecast": ("series", SMALL, [1.0, 2.0, 3.0, 4.0] * 30),
    "embed": ("texts", {}, ["the"]),
    "regress": ("rated", SMALL, ["the cat"]),
}

NO_TEXTS: tuple[Any, ...] = (5, 2.5, b"x", [5], [None], object(), np.array(1.0), {"a": 1})
NO_FLAGS: tuple[Any, ...] = (5, None, "x", [], np.array([1.0, 2.0]), object())
NO_NUMBERS: tuple[Any, ...] = (2.5, "5", True, [], None, object(), np.array([1, 2]))

PREDICT: dict[str, tuple[Any, ...]] = {
    "prefix": (*NO_TEXTS, None),
    "forbid": (*NO_TEXTS, [["a"], [5]]),
    "require": (*NO_TEXTS, [["a"], [5]]),
    "language": NO_TEXTS,
    "forbid_unknown": NO_FLAGS,
    "attention": NO_FLAGS,
    "listener": (5, "x", [], np.array([1.0, 2.0]), print),
    **{name: (object(), {"a": 1}, np.array([1.0, 2.0]), b"x") for name in DecodeConfig.model_fields},
}
"""The options of `predict`, each with values that it never has."""

OTHERS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("score", "candidates", (*NO_NUMBERS, -1)),
    ("embed", "level", (5, None, [], np.array([1.0, 2.0]), "words")),
    ("neighbours", "n", (*NO_NUMBERS, 0)),
    ("neighbours", "part", (5, [], np.array([1.0, 2.0]), "nowhere")),
    ("write_vectors", "format", (5, [], np.array([1.0, 2.0]), "excel")),
    ("evaluate", "skip_bad_lines", NO_FLAGS),
    ("evaluate", "columns", (5, "text", [], [("text", "body")])),
    ("evaluate", "backtest", (*NO_NUMBERS[:4], 0)),
]


@pytest.fixture
def rated(tmp_path: Path) -> str:
    path = tmp_path / "rated.tsv"
    path.write_text("".join(f"text number {number}\t{number}.5\n" for number in range(20)), encoding="utf-8")
    return str(path)


@pytest.fixture(params=TRAINED)
def trained(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[weft.Run, str, list[Any]]:
    task = request.param
    fixture, model, inputs = TRAINED[task]
    data = request.getfixturevalue(fixture)
    config = {"task": task, "data": {"train": data}, "model": model, "train": {"steps": 1}}
    if task == "embed":
        del config["model"]
    return weft.train(config, out=tmp_path / "run", quiet=True), data, inputs or [np.zeros((8, 8), dtype=np.uint8)]


def must_name(option: str, call: Callable[[], object]) -> None:
    """The call raises one line which names the option, and what to do."""
    with pytest.raises(ConfigError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    assert re.search(rf"\b{option}\b", line), line
    assert caught.value.cure or "should " in line, line


def test_every_task_is_here() -> None:
    assert TRAINED.keys() == TASKS.keys()


def test_predict_and_stream_name_an_option_of_the_wrong_type(trained: tuple[weft.Run, str, list[Any]]) -> None:
    run, _, inputs = trained
    for option, values in PREDICT.items():
        for value in values:
            must_name(option, lambda: run.predict(inputs, **{option: value}))  # noqa: B023
            if run.task.writes and option not in ("attention", "listener"):
                must_name(option, lambda: list(run.stream(inputs[0], **{option: value})))  # noqa: B023


def test_other_methods_name_an_option_of_the_wrong_type(
    trained: tuple[weft.Run, str, list[Any]], tmp_path: Path
) -> None:
    run, data, inputs = trained
    able = {
        "score": run.task.scores_texts,
        "neighbours": run.config.task in ("lm", "translate", "embed"),
        "write_vectors": run.config.task == "embed",
        "embed": run.config.task not in ("forecast",),
    }
    firsts: dict[str, Any] = {"evaluate": data, "neighbours": "the", "write_vectors": tmp_path / "file"}
    for method, option, values in OTHERS:
        if not able.get(method, True) or (option == "backtest" and not run.task.rolls_origin):
            continue
        for value in values:
            must_name(option, lambda: getattr(run, method)(firsts.get(method, inputs), **{option: value}))  # noqa: B023


def test_numbers_and_lists_of_other_libraries_are_taken(texts: str, tmp_path: Path) -> None:
    run = weft.train(
        {"task": "lm", "data": {"train": texts}, "model": SMALL, "train": {"steps": 1}}, out=tmp_path / "r"
    )
    assert run.score(["the"], candidates=np.int64(2)) == run.score(["the"], candidates=2)
    assert len(run.neighbours("e", n=np.int32(2))) == 2
    plain = run.predict(["t", "t"], prefix=["", ""], forbid=["e"])
    assert run.predict(["t", "t"], prefix=np.array(["", ""]), forbid={"e"}) == plain
    assert run.predict(["t", "t"], prefix=("", ""), forbid=[["e"], ("e",)]) == plain
    assert run.predict("t", forbid=None, require=None) == run.predict("t")
