"""The parts of a series in time: cut off one file by a share or a number of steps, each seen by nothing before it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tasks.test_forecast import QUICK, numbers, write_table

import weft as package
from weft.errors import ConfigError, DataError
from weft.run.prepare import prepare

LENGTHS = {"horizon": 5, "history": 10, "season": 1}


def futures(examples, history=10):
    """The numbers that the windows of a part forecast."""
    return np.array([record.target[history:] for record in examples.records])


def prepared(path, **data):
    return prepare({"task": "forecast", "data": {"train": path, **LENGTHS, **data}})


@pytest.mark.parametrize(
    ("parts", "first_valid", "first_test"),
    [
        ({"test": 0.2}, 64, 80),  # validation is a fifth of what is before the test
        ({"test": 20}, 64, 80),
        ({"test": 0.2, "valid": 0.1}, 70, 80),  # shares are of the whole series
        ({"test": 10, "valid": 20}, 70, 90),
        ({"test": 0.01}, 76, 95),  # at least a horizon
    ],
)
def test_parts_of_one_file_follow_each_other_and_share_no_forecast(tmp_path, parts, first_valid, first_test):
    found = prepared(write_table(tmp_path / "a.csv", np.arange(100.0)), **parts)
    scaling = found.task.scalings["value"]
    every = found.task.collate(found.train, range(len(found.train)))
    assert float(every.future.max()) * scaling.scale + scaling.mean == pytest.approx(first_valid - 1)
    valid, test = futures(found.valid), futures(found.test)
    assert (valid.min(), valid.max()) == (first_valid, first_test - 1)
    assert (test.min(), test.max()) == (first_test, 99)
    assert scaling.mean == pytest.approx((first_valid - 1) / 2)  # of the training part alone
    assert any(note.startswith("test: the end of each series") for note in found.notes)


def test_what_the_test_part_holds_changes_nothing_that_is_learned(tmp_path):
    values = numbers(120)
    later = np.concatenate([values[:96], np.random.default_rng(1).normal(900, 50, 24)])
    runs = [
        package.train(
            {"task": "forecast", "data": {"train": write_table(tmp_path / f"{name}.csv", column), "test": 24}},
            QUICK,
            out=tmp_path / name,
            quiet=True,
        )
        for name, column in (("one", values), ("two", later))
    ]
    one, two = (run.report for run in runs)
    assert runs[0].config.data.season == runs[1].config.data.season == 7
    for key in ("valid", "calibration"):
        assert one[key] == two[key]
    assert one["baselines"]["valid"] == two["baselines"]["valid"]
    assert list(one["baselines"]["test"]) == ["naive", "seasonal_naive", "drift"]
    assert one["test"]["mase"] < two["test"]["mase"]
    assert all(
        bool((runs[0].model.state_dict()[name] == value).all()) for name, value in runs[1].model.state_dict().items()
    )


def test_a_test_file_follows_a_validation_part_that_is_cut_off(tmp_path):
    path = write_table(tmp_path / "a.csv", np.arange(100.0))
    later = write_table(tmp_path / "b.csv", np.arange(100.0, 112.0), first=100)
    found = prepared(path, valid=30, test=later)
    assert (futures(found.valid).min(), futures(found.valid).max()) == (70, 99)
    assert (futures(found.test).min(), futures(found.test).max()) == (100, 111)


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        (
            {"test": 0},
            ConfigError,
            "data.test: 0 is neither a file, nor a share between 0 and 1, nor a number of steps",
        ),
        ({"test": 1.5}, ConfigError, "data.test: 1.5 is neither a file"),
        ({"valid": 0.5, "test": 0.5}, ConfigError, "data.test = 0.5: and data.valid = 0.5 leave nothing"),
        ({"test": 4}, ConfigError, "data.test = 4: is shorter than the horizon of 5 steps"),
        (
            {"valid": 0.6, "test": 0.38},
            DataError,
            r'series "value": data.valid = 0.6 and data.test = 0.38 leave 2 steps',
        ),
        ({"test": 99}, DataError, "the longest series has 1 step before the test part"),
        ({"test": 500}, ConfigError, "data.test = 500: leaves nothing of the 100 steps of the longest series"),
    ],
)
def test_parts_that_do_not_fit_are_one_clear_line(tmp_path, parts, error, message):
    with pytest.raises(error, match=message):
        prepared(write_table(tmp_path / "a.csv", np.arange(100.0)), **parts)


def test_a_test_part_cannot_lie_before_a_validation_file(tmp_path):
    path = write_table(tmp_path / "a.csv", np.arange(100.0))
    with pytest.raises(
        ConfigError, match=r"data.test = 0.2: is cut off the end of data.train, but data.valid is a file"
    ):
        prepared(path, valid=path, test=0.2)


def test_a_share_is_given_on_the_command_line_and_predict_reads_the_whole_file(weft, tmp_path):
    path = write_table(tmp_path / "a.csv", numbers())
    words = [f"{name}={value}" for name, value in (QUICK | {"train.epochs": 1}).items()]
    outcome = weft("train", "forecast", path, "data.test=0.2", "data.horizon=7", *words, "--out", "run")
    assert (outcome.code, "  test   mase" in outcome.err) == (0, True)
    assert weft("predict", "run").out.splitlines()[1].startswith("value,2024-04-30,")
    assert len(package.load("run").predict(path)) == 1
