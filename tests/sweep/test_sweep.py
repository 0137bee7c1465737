"""A sweep: runs under one folder, weak ones ended early, failures skipped, gone on with after a stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.errors import ConfigError, DataError, RunError, WeftError
from weft.sweep import Choice, Range, study, sweep
from weft.training import Ended

SMALL = {"embedding": 8, "hidden": 8}


@pytest.fixture
def tree(labelled):
    train = {"steps": 4, "evaluate_every": 2}
    return {"task": "classify", "data": {"train": labelled, "test": "never.tsv"}, "model": SMALL, "train": train}


class FakeRun:
    def __init__(self, score):
        self.report = {"valid": {"accuracy": score}}


def test_every_trial_is_a_run_and_the_best_comes_first(tree, tmp_path):
    heard = []
    found = sweep(tree, [Range("train.rate", 1e-4, 1e-2, True)], trials=3, out=tmp_path / "s", say=heard.append)
    assert [trial.number for trial in heard] == [0, 1, 2]
    assert {trial.metric for trial in found.trials} == {"accuracy"}
    assert [trial.score for trial in found.trials] == sorted((trial.score for trial in heard), reverse=True)
    for trial in found.trials:
        run = weft.load(tmp_path / "s" / "trials" / str(trial.number))
        assert run.report["valid"]["accuracy"] == trial.score
        assert run.config.train.rate == trial.settings["train.rate"]
        assert 1e-4 <= run.config.train.rate <= 1e-2
        assert "test" not in run.report, "the test data is not for choosing"


def test_choices_that_fit_are_each_tried_once(tree, tmp_path):
    space = [Choice("model.cell", ("gru", "lstm")), Choice("model.hidden", (4, 8))]
    found = sweep(tree, space, trials=9, out=tmp_path / "s")
    tried = sorted((trial.settings["model.cell"], trial.settings["model.hidden"]) for trial in found.trials)
    assert tried == [("gru", 4), ("gru", 8), ("lstm", 4), ("lstm", 8)]


def test_a_lower_loss_is_better(tree, tmp_path):
    tree["train"]["metric"] = "loss"
    found = sweep(tree, [Range("train.rate", 1e-4, 1e-1, True)], trials=3, out=tmp_path / "s")
    scores = [trial.score for trial in found.trials]
    assert scores == sorted(scores)


def test_a_tagger_of_spans_goes_by_spans_unless_asked(tmp_path, monkeypatch):
    scores = {"span_f1": 0.2, "accuracy": 0.9, "loss": 1.0}
    run = FakeRun(0.0)
    run.report = {"valid": scores}
    monkeypatch.setattr(study, "train_run", lambda settings, **_: (run, Ended(4, "done")))
    tree = {"task": "tag", "data": {"train": "names.txt"}}
    space = [Choice("model.hidden", (4, 8))]
    for metric, expected in ((None, "span_f1"), ("accuracy", "accuracy"), ("loss", "loss")):
        asked = tree | ({"train": {"metric": metric}} if metric else {})
        found = sweep(asked, space, trials=2, out=tmp_path / str(metric))
        assert (found.best.metric, found.best.score) == (expected, scores[expected])


def test_weak_trials_are_ended_early(tree, tmp_path):
    tree["train"] = {"steps": 16, "evaluate_every": 2, "patience": 100, "metric": "loss"}
    space = [Choice("train.rate", (2e-2, 1.9e-2, 1.8e-2, 1.7e-2, 1e-7))]
    found = sweep(tree, space, trials=5, out=tmp_path / "s")
    weak = found.trials[-1]
    assert (weak.ended, weak.score, weak.settings) == ("pruned", None, {"train.rate": 1e-7})
    journal = Path(tmp_path / "s" / "trials" / str(weak.number) / "metrics.jsonl").read_text(encoding="utf-8")
    validations = [line for line in journal.splitlines() if '"valid"' in line]
    assert study.MIN_VALIDATIONS <= len(validations) < 8
    assert not (tmp_path / "s" / "trials" / str(weak.number) / "report.json").exists()


def test_a_failed_trial_is_noted_and_the_others_go_on(tree, tmp_path):
    space = [Choice("train.evaluate_every", (2, 3)), Choice("train.device", ("cpu", "cuda:77"))]
    found = sweep(tree, space, trials=4, out=tmp_path / "s")
    assert [trial.ended for trial in found.trials] == ["complete", "complete", "failed", "failed"]
    assert 'train.device: "cuda:77" cannot be used' in found.trials[-1].error
    assert found.best is found.trials[0]


def test_what_no_trial_could_be_chosen_by_is_refused_before_the_first(tree, tmp_path):
    with pytest.raises(ConfigError, match=r'train\.metric = "bleu": is not measured here'):
        sweep(tree, [Choice("train.metric", ("accuracy", "bleu"))], trials=2, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_it_goes_on_where_it_was_stopped(tree, tmp_path, monkeypatch):
    space = [Range("train.rate", 1e-4, 1e-2, True)]
    rates = []

    def fake(stop_at):
        def train_run(settings, *, out, **_):
            rates.append(settings["train"]["rate"])
            return FakeRun(settings["train"]["rate"]), Ended(4, "done", signal=15 if len(rates) == stop_at else 0)

        return train_run

    monkeypatch.setattr(study, "train_run", fake(stop_at=3))
    stopped = sweep(tree, space, trials=5, out=tmp_path / "s")
    assert stopped.signal == 15
    assert len(stopped.trials) == 2
    monkeypatch.setattr(study, "train_run", fake(stop_at=0))
    found = sweep(tree, space, trials=5, out=tmp_path / "s", resume=True)
    assert len(found.trials) == 5
    assert len(rates) == 6
    assert rates[3] == rates[2], "what was cut off is run again"
    assert len(set(rates)) == 5, "nothing else is drawn twice"
    again = sweep(tree, space, trials=5, out=tmp_path / "s", resume=True)
    assert again == found
    assert len(sweep(tree, space, trials=6, out=tmp_path / "s", resume=True).trials) == 6


def test_a_trial_that_a_crash_left_open_is_run_again(tree, tmp_path, monkeypatch):
    space = [Choice("model.cell", ("gru", "lstm"))]

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "train_run", killed)
    with pytest.raises(KeyboardInterrupt):
        sweep(tree, space, trials=2, out=tmp_path / "s")
    monkeypatch.setattr(study, "train_run", lambda settings, **_: (FakeRun(0.5), Ended(4, "done")))
    found = sweep(tree, space, trials=2, out=tmp_path / "s", resume=True)
    assert sorted(trial.settings["model.cell"] for trial in found.trials) == ["gru", "lstm"]


def test_mistakes_are_found_before_anything_is_trained(tree, tmp_path, monkeypatch):
    out = tmp_path / "s"
    with pytest.raises(ConfigError, match=r"train\.raet"):
        sweep(tree, [Range("train.raet", 1, 2, False)], trials=2, out=out)
    with pytest.raises(ConfigError, match=r"train\.rate = 0"):
        sweep(tree, [Range("train.rate", 0, 1, False)], trials=2, out=out)
    with pytest.raises(ConfigError, match="nothing to search"):
        sweep(tree, [], trials=2, out=out)
    monkeypatch.setattr(study, "find_spec", lambda name: None)
    with pytest.raises(WeftError, match="pip install 'optuna"):
        sweep(tree, [Range("train.rate", 0.1, 1, False)], trials=2, out=out)
    assert not out.exists()


def test_data_that_cannot_be_read_ends_the_sweep(tree, tmp_path):
    tree["data"]["train"] = str(tmp_path / "nothing.tsv")
    with pytest.raises(DataError, match=r"nothing\.tsv"):
        sweep(tree, [Range("train.rate", 0.1, 1.0, False)], trials=2, out=tmp_path / "s")


def test_a_folder_belongs_to_one_sweep(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "train_run", lambda settings, **_: (FakeRun(0.5), Ended(4, "done")))
    space = [Choice("model.cell", ("gru", "lstm"))]
    sweep(tree, space, trials=2, out=tmp_path / "s")
    with pytest.raises(RunError, match="--resume"):
        sweep(tree, space, trials=2, out=tmp_path / "s")
    with pytest.raises(ConfigError, match="another sweep"):
        sweep(tree, [Range("train.rate", 0.1, 1.0, False)], trials=2, out=tmp_path / "s", resume=True)


def test_the_command_prints_a_table_and_the_next_command(weft, labelled):
    words = ["sweep", "classify", labelled, "model.cell=gru,lstm", "model.hidden=8", "train.steps=2", "--out", "s"]
    shown = weft(*words)
    assert shown.code == 0, shown.err
    for word in ("trial", "accuracy", "model.cell", "gru", "lstm", "%"):
        assert word in shown.out
    line = next(line for line in shown.err.splitlines() if line.startswith("Next: "))
    assert line.startswith(f"Next: weft train classify {labelled} model.hidden=8 train.steps=2 model.cell=")
    assert line.endswith("--out s/best")
    trained = weft(*line.removeprefix("Next: weft ").split(), "-q")
    assert trained.code == 0, trained.err
    best = json.loads(Path("s/best/report.json").read_text(encoding="utf-8"))
    again = weft(*words, "--resume")
    assert f"{100 * best['valid']['accuracy']:.2f}%" in again.out
    assert weft(*words).code == 2


def test_a_sweep_of_failures_is_one_itself(weft, tmp_path):
    outcome = weft("sweep", "classify", "n" * 5000, "train.rate=1e-3..1e-2", "--trials", "1", "--out", "s")
    assert outcome.code == 2
    assert "every trial failed, the first with: " in outcome.err
    assert len(outcome.err) < 1500
