"""train.seconds: training stops when its time is over, with a model that was validated."""

from __future__ import annotations

import weft
from weft.training.events import TIME_IS_OVER

SMALL = {"embedding": 8, "hidden": 8}


def test_training_stops_when_the_time_is_over_and_goes_on_with_more(labelled, tmp_path):
    config = {"task": "classify", "data": {"train": labelled}, "model": {"kind": "rnn", **SMALL}}
    train = {"steps": 6, "evaluate_every": 4, "seconds": 1e-6}
    run = weft.train(config | {"train": train}, out=tmp_path / "run", quiet=True)
    assert run.report["ended"] == TIME_IS_OVER
    assert run.report["steps"] == run.report["best_step"] == 1, "the last update is validated"
    run = weft.train(config | {"train": train | {"seconds": 1e6}}, out=tmp_path / "run", quiet=True, resume=True)
    assert run.report["steps"] == 6
    assert run.report["ended"] == "all updates done"
