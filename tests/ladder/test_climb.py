"""Ladders that are trained: resumed as if nothing had happened, limited in time, with cells of one's own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from weft.errors import ConfigError, DataError, RunError
from weft.ladder import Rung, build_rungs, climb, climbing, summarise
from weft.nn import Cell
from weft.training import Update
from weft.training.progress import Watch

SMALL = {"model": {"embedding": 4, "hidden": 4}, "train": {"steps": 8, "evaluate_every": 4}}
BOTH = SMALL | {"model": SMALL["model"] | {"width": 8, "heads": 2, "feedforward": 8}}


class Interrupting(Watch):
    """Sends Ctrl-C at an update."""

    def __init__(self, at: int) -> None:
        super().__init__(quiet=True)
        self.at = at

    def show(self, event):
        if isinstance(event, Update) and event.number == self.at:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def base(labelled):
    return {"task": "classify", "data": {"train": labelled}}


def table(summary):
    """All of a table but for times."""
    tree = summary.tree()
    return tree | {
        "rungs": [{k: v for k, v in rung.items() if k not in ("seconds", "speed")} for rung in tree["rungs"]],
        "cheapest": None,
    }


def test_interrupted_and_resumed_gives_the_same_table_but_for_times(base, tmp_path):
    rungs = build_rungs(base, only=["majority", "rnn", "transformer"], overrides=BOTH)
    whole = climb(rungs, out=tmp_path / "whole")
    watches = iter([Interrupting(99), Interrupting(5)])
    found = climb(rungs, out=tmp_path / "parts", watch=lambda: next(watches))
    assert found.signal == signal.SIGINT
    assert list(found.folders) == ["rnn"]
    with pytest.raises(RunError, match="not empty"):
        climb(rungs, out=tmp_path / "parts")
    kept = (tmp_path / "parts" / "rungs" / "rnn" / "report.json").read_bytes()
    resumed = climb(rungs, out=tmp_path / "parts", resume=True)
    assert resumed.signal == 0
    assert (tmp_path / "parts" / "rungs" / "rnn" / "report.json").read_bytes() == kept, "a finished rung is kept"
    first, second = (table(summarise(rungs, one.folders, base)) for one in (whole, resumed))
    assert first == second
    assert [rung["name"] for rung in first["rungs"]] == ["majority", "rnn", "transformer"]
    assert all(rung["bytes"] > 1000 for rung in first["rungs"][1:])


def test_another_ladder_is_not_resumed(base, tmp_path):
    rungs = build_rungs(base, only=["rnn"], overrides=SMALL)
    climb(rungs, out=tmp_path / "one")
    with pytest.raises(ConfigError, match="another ladder was begun here"):
        climb([*rungs, Rung("more", rungs[0].settings)], out=tmp_path / "one", resume=True)
    with pytest.raises(ConfigError, match="another ladder was begun here"):
        climb(rungs, out=tmp_path / "one", resume=True, seconds=3.0)


def test_time_becomes_updates_once(base, tmp_path, monkeypatch):
    """Where all updates take too long, as many are made as fit; the number is kept for a resumed ladder."""
    measured = []

    def twice_too_long(prepared):
        measured.append(prepared.config.train.steps)

        class Found:
            updates, seconds = 8, 2 * climbing.ROOM * 50

        return Found

    monkeypatch.setattr(climbing, "dry_run", twice_too_long)
    rungs = build_rungs(base, only=["rnn"], overrides=SMALL)
    found = climb(rungs, out=tmp_path / "timed", seconds=50.0)
    report = json.loads((found.folders["rnn"] / "report.json").read_text(encoding="utf-8"))
    assert report["steps"] == 4
    config = json.loads((found.folders["rnn"] / "config.json").read_text(encoding="utf-8"))
    assert config["train"]["seconds"] == 50.0
    climb(rungs, out=tmp_path / "timed", seconds=50.0, resume=True)
    assert measured == [8]


def test_a_rung_that_fails_is_left_out(base, tmp_path, monkeypatch):
    good, bad = build_rungs(base, only=["rnn", "transformer"], overrides=BOTH)
    bad.settings["train"]["device"] = "cuda:77"
    heard = []
    found = climb([bad, good], out=tmp_path / "some", say=heard.append)
    assert list(found.folders) == ["rnn"]
    assert list(found.failed) == ["transformer"]
    assert heard[1].startswith("transformer is left out: ")
    summary = summarise([bad, good], found.folders, base, failed=found.failed)
    assert [rung.name for rung in summary.rungs] == ["rnn"]
    assert list(summary.failed) == ["transformer"]
    with pytest.raises(DataError, match="no such file"):
        climb([Rung("rnn", {**good.settings, "data": {"train": "none.tsv"}})], out=tmp_path / "none")


@pytest.mark.parametrize("task", ["lm", "tag", "translate"])
def test_other_tasks(task, texts, tagged, pairs, tmp_path):
    base = {"task": task, "data": {"train": {"lm": texts, "tag": tagged, "translate": pairs}[task]}}
    side = {"embedding": 4, "hidden": 4}
    model = {"encoder": side, "decoder": side} if task == "translate" else side
    only = {"lm": ["elman", "lstm"], "tag": ["per-word", "rnn"], "translate": ["rnn-first", "rnn-after"]}[task]
    overrides = {"model": model, "train": {"steps": 3}} | ({} if task == "tag" else {"decode": {"beam": 1}})
    rungs = build_rungs(base, only=only, overrides=overrides)
    found = summarise(rungs, climb(rungs, out=tmp_path / "ladder").folders, base)
    assert [rung.name for rung in found.rungs] == only
    assert found.metric == {"lm": "perplexity", "tag": "accuracy", "translate": "exact"}[task]
    assert found.measured_on == "valid"
    if task == "tag":
        assert found.best == "per-word", "three updates learn less than counting"
        assert found.rungs[0].score == 1


def test_an_infinite_perplexity_is_last_and_null(texts, tmp_path):
    """Without smoothing a number that training never saw is impossible."""
    path = tmp_path / "unsmoothed.toml"
    path.write_text('[model]\nkind = "ngram"\norder = 3\nsmoothing = { kind = "none" }\n', encoding="utf-8")
    base = {"task": "lm", "data": {"train": texts}}
    rungs = build_rungs(base, only=["ngram-2", "ngram-3"], files=[path], overrides={"text": {"kind": "char"}})
    found = climb(rungs, out=tmp_path / "ladder", seconds=30.0)
    summary = summarise(rungs, found.folders, base)
    assert not (tmp_path / "ladder" / climbing.BUDGET).exists(), "models of counts have no limit"
    assert summary.best in ("ngram-2", "ngram-3")
    assert [rung["score"] is None for rung in summary.tree()["rungs"]] == [False, False, True]


def test_several_labels_have_no_majority(tmp_path):
    path = tmp_path / "many.jsonl"
    lines = [{"text": f"{a} {b} {n}", "label": [a, b]} for n in range(20) for a in "xy" for b in "vw"]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    base = {"task": "classify", "data": {"train": str(path), "labels": "many"}}
    rungs = build_rungs(base, only=["majority", "rnn"], overrides=SMALL)
    summary = summarise(rungs, climb(rungs, out=tmp_path / "ladder").folders, base)
    assert [rung.name for rung in summary.rungs] == ["rnn"]
    assert list(summary.failed) == ["majority"]


class Forgetful(Cell):
    """h' = tanh(x)"""

    def step(self, x, h):
        return x.tanh(), x.tanh()


def test_a_cell_of_ones_own(base, tmp_path):
    path = tmp_path / "forgetful.toml"
    path.write_text('[model]\nkind = "rnn"\ncell = "mine"\n', encoding="utf-8")
    cells = {"mine": Forgetful}
    rungs = build_rungs(base, only=[], files=[path], overrides=SMALL, cells=cells)
    found = climb(rungs, out=tmp_path / "ladder", cells=cells)
    assert summarise(rungs, found.folders, base, cells=cells).best == "forgetful"


def test_the_command(weft, labelled):
    options = ["--updates", "4", "--only", "majority,rnn", "--out", "out", "model.embedding=4", "model.hidden=4"]
    outcome = weft("ladder", "classify", labelled, *options)
    assert outcome.code == 0, outcome.err
    assert "classify: scores on the valid data" in outcome.out
    found = json.loads(Path("out/ladder.json").read_text(encoding="utf-8"))
    assert {"name", "score", "low", "high", "parameters", "seconds", "bytes"} <= set(found["rungs"][1])
    assert {found["best"], found["cheapest"]} <= {"majority", "rnn", None}
    page = Path("out/ladder.html").read_text(encoding="utf-8")
    assert "There is no picture" in page
    assert page.count("<tr") == 3
    again = weft("ladder", "classify", labelled, *options, "--resume", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["rungs"][1]["score"] == found["rungs"][1]["score"]


def test_majority_alone_is_a_ladder(weft, labelled):
    outcome = weft("ladder", "classify", labelled, "--only", "majority", "--out", "out")
    assert outcome.code == 0, outcome.err
    assert "majority is the only rung" in outcome.out


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_mistakes_in_the_data_are_found_before_the_first_training(weft, labelled, part):
    """Also in the test file, which training does not need; and the folder is free for another attempt."""
    lines = Path(labelled).read_text(encoding="utf-8")
    Path("bad.tsv").write_text(f"{lines}a line without its label\n", encoding="utf-8")
    files = {"train": labelled, "valid": labelled, "test": labelled} | {part: "bad.tsv"}
    outcome = weft("ladder", "classify", *files.values(), "--only", "majority,rnn", "--updates", "2", "--out", "out")
    assert outcome.code == 2
    assert f"bad.tsv:{len(lines.splitlines()) + 1}: 1 column where 2 are expected" in outcome.err
    assert "training 1" not in outcome.err
    assert not Path("out").exists()


def test_the_command_can_be_stopped(weft, labelled, monkeypatch):
    monkeypatch.setattr("weft.training.progress.Watch", lambda quiet: Interrupting(2))
    outcome = weft("ladder", "classify", labelled, "--updates", "9", "--only", "rnn", "--out", "out", "model.hidden=4")
    assert outcome.code == 130
    command = f"weft ladder classify {labelled} model.hidden=4 --updates 9 --only rnn --out out --resume"
    assert command in outcome.err


@pytest.mark.usefixtures("extras")
def test_the_picture(weft, labelled):
    pytest.importorskip("altair")
    options = ["--updates", "2", "--only", "majority,rnn", "--out", "out", "model.embedding=4", "model.hidden=4"]
    assert weft("ladder", "classify", labelled, *options).code == 0
    assert Path("out/ladder.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert "<svg" in Path("out/ladder.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["clasify", "x.tsv"],
            '"clasify": is not a task (did you mean "classify"? a task of your own comes by --import',
        ),
        (["classify", "x.tsv", "--seconds", "3", "--updates", "3"], "--seconds: is one budget, --updates another"),
        (["classify", "x.tsv", "--resume"], "--resume: needs the folder of the ladder"),
        (["classify", "train.rate=1"], "no training data"),
        (["classify", "x.tsv", "--only", "svm"], '"svm": is no rung of classify'),
        (["classify", "x.tsv", "--only", "rnn", "model.heads=3"], "heads"),
        (["classify", "none.tsv", "--only", "rnn"], "none.tsv: no such file"),
    ],
)
def test_mistakes(weft, words, said):
    outcome = weft("ladder", *words)
    assert outcome.code == 2
    assert said in outcome.err
