"""The mean of the last models: made by hand, and kept where it is better than the best of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import weft
from weft.evaluate import Evaluation
from weft.run.job import TrainingJob
from weft.training import Average
from weft.training.best import copy_weights

CONFIG = {
    "task": "lm",
    "model": {"embedding": 8, "hidden": 8},
    "train": {"steps": 6, "batch_tokens": 64, "evaluate_every": 3, "average": 2},
}


class Counting(nn.Module):
    """A weight, and a number that is no weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("seen", torch.tensor(0))


@pytest.mark.covers("L7")
def test_the_mean_of_the_last_few_by_hand():
    model, average = Counting(), Average(2)
    for step, value in ((10, 100.0), (20, 1.0), (30, 4.0)):
        nn.init.constant_(model.weight, value)
        model.seen.fill_(step)
        average.take(step, model)
    assert average.steps == [20, 30]
    assert average.mean()["weight"].tolist() == [2.5, 2.5]
    assert average.mean()["seen"].item() == 30


def test_nothing_is_kept_where_nothing_is_asked_for():
    average = Average(0)
    average.take(1, Counting())
    assert average.steps == []


@pytest.mark.parametrize(
    ("scores", "losses", "chosen"),
    [
        ([7.0, 6.0, 5.0], [1.0, 1.0, 1.0], "average"),
        ([6.0, 7.0, 9.0], [1.0, 1.0, 0.5], "best"),
        ([6.0, 7.0, 6.0], [1.0, 1.0, 0.5], "average"),
        ([6.0, 7.0, 6.0], [1.0, 1.0, 1.0], "best"),
    ],
)
def test_the_better_of_the_two_is_the_run(scores, losses, chosen, texts, tmp_path, monkeypatch):
    """Scores of two validations and of the mean are given; the weights they were measured with are kept."""
    measured = []

    def measure(job):
        measured.append(copy_weights(job.state.model))
        return Evaluation({"perplexity": scores[len(measured) - 1], "loss": losses[len(measured) - 1]}, {})

    monkeypatch.setattr(TrainingJob, "measure", measure)
    run = weft.train(CONFIG | {"data": {"train": texts}}, out=tmp_path / "run", quiet=True)
    assert run.report["weights"] == chosen
    assert run.report["average"] == {"steps": [3, 6], "perplexity": scores[2]}
    first, second, mean = measured
    expected = mean if chosen == "average" else first
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, expected[name])
        torch.testing.assert_close(mean[name], (first[name] + second[name]) / 2)
        assert not torch.equal(first[name], second[name])


def test_without_it_the_report_says_best(texts, tmp_path):
    config = CONFIG | {"data": {"train": texts}, "train": {"steps": 6}}
    report = weft.train(config, out=tmp_path / "run", quiet=True).report
    assert report["weights"] == "best"
    assert "average" not in report
