"""Options of predict and evaluate that nothing reads are refused; runs that were trained with such settings load."""

from __future__ import annotations

import json

import pytest

import weft
from weft.errors import ConfigError
from weft.run.folder.files import read_json, write_json
from weft.run.folder.manifest import MANIFEST, hash_file, write_manifest

SMALL = {"embedding": 8, "hidden": 8}
TWO = {"encoder": SMALL, "decoder": SMALL}


def train(task, data, out, model=SMALL):
    config = {"task": task, "data": {"train": data}, "model": model, "train": {"steps": 1}}
    return weft.train(config, out=out, quiet=True)


def rewrite(folder, change):
    """Change the config.json of a run, as if an earlier version had written it."""
    written = read_json(folder / "config.json")
    change(written)
    write_json(folder / "config.json", written)
    names = read_json(folder / MANIFEST)["sha256"]
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


def test_a_classifier_and_a_tagger_search_for_no_text(labelled, tagged, tmp_path):
    for task, data in (("classify", labelled), ("tag", tagged)):
        run = train(task, data, tmp_path / task)
        assert "decode" not in read_json(run.folder / "config.json")
        assert "[decode]" not in (run.folder / "README.md").read_text(encoding="utf-8")
        for options in ({"n_best": 2}, {"seed": 0}, {"beam": 4}):
            with pytest.raises(ConfigError, match=rf"^{next(iter(options))}: {task} writes no text to search for"):
                run.predict(["the cat"], **options)
            with pytest.raises(ConfigError, match=rf"^{next(iter(options))}: evaluation of {task} searches for no"):
                run.evaluate(data, **options)


def test_evaluating_a_language_model_searches_for_no_text(weft, texts, tmp_path):
    run = train("lm", texts, tmp_path / "run")
    outcome = weft("evaluate", str(run.folder), texts, "--beam", "4")
    assert (outcome.code, outcome.err) == (2, "error beam: evaluation of lm searches for no text (remove it)\n")
    assert run.decode({"seed": 3}).seed == 3, "it draws what it writes"
    with pytest.raises(ConfigError, match=r"^decode\.seed = 3: only acts on sampling"):
        run.decode({"seed": 3, "beam": 2})


def test_options_for_chance_need_sampling_whatever_their_value(weft, pairs, tmp_path):
    run = train("translate", pairs, tmp_path / "run", TWO)
    for seed in (0, 3):
        outcome = weft("predict", str(run.folder), pairs, "--seed", str(seed))
        assert outcome.code == 2
        assert f"decode.seed = {seed}: only acts on sampling" in outcome.err
    assert run.decode({"seed": 3, "sample": True}).seed == 3
    with pytest.raises(ConfigError, match=r"^decode\.diversity = 0\.5: only acts between groups"):
        run.decode({"diversity": 0.5})
    outcome = weft("predict", str(run.folder), pairs, "--stream", "--beam", "4", "--n-best", "2")
    assert (outcome.code, "prints one text, not n_best = 2" in outcome.err) == (2, True)
    assert run.evaluate(pairs, beam=2).metrics


def test_the_configuration_in_a_run_folder_trains_the_same_model_again(labelled, tmp_path):
    run = train("classify", labelled, tmp_path / "one")
    again = weft.train(run.folder / "config.json", out=tmp_path / "two", quiet=True)
    assert again.config == run.config
    assert again.predict(["the cat"]) == run.predict(["the cat"])


def test_a_run_of_an_earlier_version_loads_with_what_it_was_trained_with(labelled, pairs, tmp_path):
    run = train("classify", labelled, tmp_path / "old")
    answers = run.predict(["the cat"])
    rewrite(run.folder, lambda written: written.update(decode={"beam": 4, "n_best": 1, "sample": False}))
    again = weft.load(run.folder)
    assert again.predict(["the cat"]) == answers
    assert again.config == run.config
    run = train("translate", pairs, tmp_path / "pairs", TWO)

    def change(written):
        written["decode"]["seed"] = 5
        written["model"]["decoder"]["skip"] = "dense"

    answers = run.predict(["one two"])
    rewrite(run.folder, change)
    again = weft.load(run.folder)
    assert json.loads(json.dumps(again.config.tree()))["decode"]["seed"] == 5
    assert again.predict(["one two"]) == answers
    assert len(again.predict(["one two"], beam=3, n_best=2)[0].candidates) == 2
