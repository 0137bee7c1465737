"""The journal of a sweep after a crash, and journals that Optuna did not write."""

from __future__ import annotations

import os
import signal

import pytest

from weft.errors import RunError
from weft.sweep import Choice, study, sweep
from weft.training import Ended

SPACE = [Choice("model.cell", ("gru", "lstm")), Choice("model.hidden", (4, 8))]
TREE = {"task": "classify", "data": {"train": "c.tsv"}}
GRID = sorted((cell, hidden) for cell in ("gru", "lstm") for hidden in (4, 8))


class FakeRun:
    def __init__(self):
        self.report = {"valid": {"accuracy": 0.5}}


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """The journal of a sweep that is over; its trials train nothing."""
    monkeypatch.setattr(study, "train_run", lambda settings, **_: (FakeRun(), Ended(4, "done", finished=True)))
    sweep(TREE, SPACE, trials=4, out=tmp_path / "s")
    return tmp_path / "s" / "trials.log"


def go_on(journal, notes=None):
    told = [] if notes is None else notes
    found = sweep(TREE, SPACE, trials=4, out=journal.parent, resume=True, note=told.append)
    return sorted((trial.settings["model.cell"], trial.settings["model.hidden"]) for trial in found.trials)


def test_whichever_line_a_crash_cuts_off_every_trial_is_there_in_the_end(journal):
    lines = journal.read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        journal.write_bytes(b"".join(lines[:count]) + lines[count][:-20])
        notes = []
        assert go_on(journal, notes) == GRID, count
        assert len(notes) == 1
        assert go_on(journal, notes) == GRID
        assert len(notes) == 1, "the journal is whole again"


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"",
        b"[]",
        b'{"op_code":99}',
        b'{"op_code":true,"worker_id":"a"}',
        b'{"op_code":4,"worker_id":"a"}',
        b'{"op_code":7,"worker_id":"a","trial_id":[]}',
        b'{"op_code":4,"worker_id":"a","study_id":0,"distributions":[],"datetime_start":null}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_that_optuna_did_not_write_is_named(journal, line):
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], line + b"\n", *lines[3:]]))
    before = journal.read_bytes()
    with pytest.raises(RunError, match=r"trials\.log:4: is damaged, .*another --out\)$"):
        go_on(journal)
    assert journal.read_bytes() == before


def test_lines_that_only_together_make_no_sense_are_told_too(journal):
    with journal.open("ab") as file:
        state = b'"state":0,"datetime_start":null,"system_attrs":{"fixed_params":5}'
        file.write(b'{"op_code":4,"worker_id":"a","study_id":0,%b}\n' % state)
    with pytest.raises(RunError, match=r"trials\.log: is damaged"):
        go_on(journal)


def test_what_is_no_regular_file_is_never_opened(journal):
    journal.rename(journal.with_name("elsewhere"))
    journal.symlink_to("elsewhere")
    with pytest.raises(RunError, match="is a link"):
        go_on(journal)
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(RunError, match="is no regular file"):
        go_on(journal)


def test_a_signal_while_a_report_is_made_keeps_the_trial_and_ends_the_sweep(tmp_path, monkeypatch):
    late = Ended(4, "done", signal.SIGTERM, finished=True)
    monkeypatch.setattr(study, "train_run", lambda settings, **_: (FakeRun(), late))
    heard = []
    for count in range(1, 4):
        found = sweep(TREE, SPACE, trials=4, out=tmp_path / "s", resume=True, say=heard.append)
        assert (len(found.trials), found.signal) == (count, signal.SIGTERM)
    found = sweep(TREE, SPACE, trials=4, out=tmp_path / "s", resume=True, say=heard.append)
    assert (len(found.trials), found.signal) == (4, 0), "nothing is left to do"
    assert [trial.number for trial in heard] == [0, 1, 2, 3]
