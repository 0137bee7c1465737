"""Ladders in the studio: the table that the ladder wrote, and files that are none."""

from __future__ import annotations

import json

import pytest

from weft.errors import RunError
from weft.ladder.summary import MeasuredRung, Summary
from weft.studio.comparing import read_summary, show_ladder
from weft.studio.discovery import Found, Library

RUNGS = [
    MeasuredRung("bag", 0.8, 0.7, 0.9, 0.2, 10, 1.0, 1000, 50.0),
    MeasuredRung("rnn", 0.9, 0.85, 0.95, 0.0, 100, 20.0, 2000, 5.0),
]
SUMMARY = Summary("classify", "accuracy", "test", 200, RUNGS, "rnn", "rnn", {"transformer": "no memory"}, ["a note"])


@pytest.fixture
def ladder(tmp_path):
    folder = tmp_path / "runs" / "ladder-1"
    folder.mkdir(parents=True)
    (folder / "ladder.json").write_text(json.dumps(SUMMARY.tree()))
    return Found("ladder-1", folder)


def test_the_summary_is_that_of_the_ladder(ladder):
    assert read_summary(ladder) == SUMMARY


def test_a_ladder_is_listed_with_its_best_rung(ladder):
    (row,) = Library([ladder.folder.parent]).describe_ladders()
    assert (row["id"], row["best"], row["value"], row["metric"]) == ("ladder-1", "rnn", 0.9, "accuracy")


def test_a_ladder_has_its_table_conclusion_and_chart(ladder, extras):
    found = show_ladder(ladder)
    assert [row[1] for row in found["rows"]] == ["bag", "rnn"]
    assert found["conclusion"].startswith("rnn is the best")
    assert found["specification"]["layer"]
    assert found["failed"] == {"transformer": "no memory"}


@pytest.mark.parametrize("content", ["", "[]", '{"rungs": 3}', '{"rungs": [], "task": "lm"}', '{"best": "x", "cheape'])
def test_a_file_that_is_no_ladder_is_one_error(ladder, content):
    (ladder.folder / "ladder.json").write_text(content)
    with pytest.raises(RunError, match=r"ladder\.json"):
        read_summary(ladder)
    (row,) = Library([ladder.folder.parent]).describe_ladders()
    assert row["best"] is None
