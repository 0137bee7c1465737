"""Every way of teaching through the public door: a configuration in, a trained run out."""

from __future__ import annotations

import pytest

import weft
from weft.errors import ConfigError

RNN = {"kind": "rnn", "embedding": 8, "hidden": 8}
TRANSFORMER = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}


@pytest.fixture
def train(tmp_path):
    pairs, text = tmp_path / "pairs.tsv", tmp_path / "text.txt"
    pairs.write_text("".join(f"{'ab' * n} c\tc {'ba' * n}\n" for n in range(1, 30)), encoding="utf-8")
    text.write_text("the cat sat on the mat and the dog lay on the log\n" * 40, encoding="utf-8")

    def run(task, model, settings, **data):
        file = str(pairs if task == "translate" else text)
        sides = {"encoder": model, "decoder": model} if task == "translate" else model
        tree = {
            "task": task,
            "data": {"train": file, "valid": file} | data,
            "text": {"kind": "char"},
            "model": sides,
            "train": {"steps": 4, "batch_tokens": 128, "evaluate_every": 2} | settings,
        }
        return weft.train(tree, out=tmp_path / "run", quiet=True)

    return run


@pytest.mark.parametrize("model", [RNN, TRANSFORMER], ids=["rnn", "transformer"])
@pytest.mark.parametrize("task", ["translate", "lm"])
def test_scheduled_sampling(train, task, model):
    run = train(task, model, {"teacher_forcing": {"kind": "inverse_sigmoid", "k": 2.0}})
    assert run.report["steps"] == 4
    assert run.config.train.teacher_forcing(1) == pytest.approx(2 / (2 + 2.718281828**0.5))


@pytest.mark.parametrize("unit", ["stream", "line"])
def test_truncated_backpropagation(train, unit):
    assert train("lm", RNN, {"truncate": 8}, unit=unit).report["steps"] == 4


@pytest.mark.parametrize(("task", "model", "data"), [("translate", RNN, {}), ("lm", TRANSFORMER, {"unit": "stream"})])
def test_truncated_backpropagation_where_there_is_none(train, task, model, data):
    with pytest.raises(ConfigError, match=r"train\.truncate = 8: needs"):
        train(task, model, {"truncate": 8}, **data)


@pytest.mark.parametrize("schedule", ["plateau", "linear"])
def test_the_rest_together(train, schedule):
    settings = {"accumulate": 2, "clip_value": 0.1, "freeze": ["encoder.*"], "schedule": schedule}
    run = train("translate", RNN, settings)
    assert run.report["steps"] == 4
    assert run.report["parameters"] < sum(weight.numel() for weight in run.model.parameters())


def test_fp16_is_for_cuda(train):
    with pytest.raises(ConfigError, match=r"train\.precision"):
        train("lm", RNN, {"precision": "fp16", "device": "cpu"})
