"""The rungs of a ladder: those of the task, some of them, config files, and settings for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import ConfigError
from weft.ladder import DEFAULT_RUNGS, build_rungs

BASE = {"task": "classify", "data": {"train": "reviews.tsv"}}


def built(base=BASE, **options):
    return {rung.name: rung.settings for rung in build_rungs(base, **options)}


def test_default_rungs_in_their_order():
    found = built(only=["transformer", "majority", "rnn"])
    assert list(found) == ["majority", "rnn", "transformer"]
    assert found["majority"] is None
    assert found["rnn"] == {**BASE, "model": {"kind": "rnn"}}


def test_a_default_rung_that_cannot_be_trained_is_left_out_unless_asked_for(monkeypatch):
    rungs = {"odd": {"kind": "odd"}, "rnn": {"kind": "rnn"}}
    monkeypatch.setitem(DEFAULT_RUNGS, "classify", rungs)
    odd = {rung.name: rung for rung in build_rungs(BASE)}["odd"]
    assert odd.settings is None
    assert 'model.kind = "odd"' in odd.error
    with pytest.raises(ConfigError, match="odd"):
        build_rungs(BASE, only=["odd", "rnn"])
    with pytest.raises(ConfigError, match="collumn"):
        built({"task": "classify", "data": {"train": "x", "collumn": 1}})


@pytest.mark.parametrize("task", DEFAULT_RUNGS)
def test_every_default_rung_is_a_configuration_and_takes_a_budget(task):
    found = built({"task": task, "data": {"train": "x"}}, overrides={"train": {"steps": 5}})
    models = {name: settings for name, settings in found.items() if settings is not None}
    assert list(models) == list(DEFAULT_RUNGS[task])
    counted = {name for name, settings in models.items() if "train" not in settings}
    assert counted == {name for name in models if name.startswith(("ngram", "hmm"))}


def test_a_setting_goes_to_the_rungs_that_have_it():
    found = built(only=["rnn", "transformer"], overrides={"model": {"heads": 2}, "train": {"rate": 1e-3}})
    assert found["rnn"]["model"] == {"kind": "rnn"}
    assert found["transformer"]["model"] == {"kind": "transformer", "heads": 2}
    assert found["rnn"]["train"] == found["transformer"]["train"] == {"rate": 1e-3}
    with pytest.raises(ConfigError, match="haeds"):
        built(only=["rnn", "transformer"], overrides={"model": {"haeds": 2}})


def test_config_files_are_further_rungs(tmp_path):
    path = tmp_path / "wide.toml"
    path.write_text('[model]\nkind = "rnn"\nhidden = 512\n[train]\nepochs = 3\n', encoding="utf-8")
    found = built(only=["majority"], files=[path], overrides={"train": {"steps": 7}})
    assert list(found) == ["majority", "wide"]
    assert found["wide"]["model"] == {"kind": "rnn", "hidden": 512}
    assert found["wide"]["train"] == {"steps": 7}, "the budget takes the place of the file's own"
    assert found["wide"]["data"] == BASE["data"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.toml", 'task = "lm"', 'is for "lm"'),
        ("rnn.toml", "", "is the name of another rung"),
        ("a b.toml", "", "is no name for a folder"),
        ("a.toml", "seed = 7", "another seed sets other examples aside"),
    ],
)
def test_files_that_are_no_rung(name, content, said, tmp_path):
    Path(tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        built(files=[tmp_path / name], only=["rnn"])


def test_rungs_that_are_not_there():
    with pytest.raises(ConfigError, match='did you mean "rnn"'):
        built(only=["rn"])
    with pytest.raises(ConfigError, match="no rung of classify to measure"):
        built(only=[])
