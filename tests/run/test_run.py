"""The run folder: what training writes, loading reads; the same seed gives the same model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import weft
from weft.errors import ConfigError, RunError
from weft.run.folder.manifest import hash_file, write_manifest

SMALL = {"embedding": 8, "hidden": 8}
MODELS = {
    "classify": SMALL,
    "lm": SMALL,
    "tag": SMALL | {"characters": 4},
    "translate": {"encoder": SMALL, "decoder": SMALL},
}
INPUTS = {
    "classify": ["the red and the cow", "the fox"],
    "lm": ["the cat", "a"],
    "tag": ["the cat runs.", ["a", "dog"]],
    "translate": ["one two", "three"],
}


@pytest.fixture
def files(labelled, texts, tagged, pairs):
    return {"classify": labelled, "lm": texts, "tag": tagged, "translate": pairs}


def train(task, files, out, **overrides):
    config = {"task": task, "data": {"train": files[task]}, "model": MODELS[task], "train": {"steps": 3}}
    return weft.train(config, overrides, out=out, quiet=True)


def seal(folder):
    """Have the manifest of a run list its files as they are now."""
    names = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


@pytest.mark.parametrize("task", MODELS)
def test_a_loaded_run_answers_and_scores_as_the_trained_one(task, files, tmp_path):
    run = train(task, files, tmp_path / "run")
    again = weft.load(tmp_path / "run")
    assert again.config == run.config
    for name, weight in run.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight)
    assert again.predict(INPUTS[task]) == run.predict(INPUTS[task])
    assert again.evaluate(files[task]).metrics == run.evaluate(files[task]).metrics
    assert set(run.report["valid"]) == set(run.task.metrics), "what a task says it measures"


@pytest.mark.parametrize("task", MODELS)
def test_the_same_seed_gives_the_same_model_and_scores_and_another_does_not(task, files, tmp_path):
    first, second = (train(task, files, tmp_path / name) for name in ("one", "two"))
    other = train(task, files, tmp_path / "other", seed=1)
    assert first.report["valid"] == second.report["valid"]
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert other.report["valid"] != first.report["valid"]


@pytest.mark.usefixtures("extras")
def test_the_folder_has_the_names_the_field_expects(files, tmp_path):
    run = train("classify", files, tmp_path / "run")
    extras = {"curves.svg": "altair", "tensorboard": "tensorboard"}
    made = {name for name, package in extras.items() if find_spec(package)}
    assert {path.name for path in run.folder.iterdir()} == made | {
        "README.md",
        "checkpoints",
        "config.json",
        "labels.json",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "report.json",
        "tokenizer.json",
    }
    config = json.loads((run.folder / "config.json").read_text())
    assert config["model_type"] == "weft-classify"
    assert config["format_version"] == 2
    assert json.loads((run.folder / "labels.json").read_text()) == ["animal", "colour"]
    report = json.loads((run.folder / "report.json").read_text())
    assert {"valid", "parameters", "seconds", "tokens_per_second", "seed", "versions"} <= report.keys()
    assert "test" not in report, "there was no test file"
    assert report["parameters"] == sum(weight.numel() for weight in run.model.parameters())


def test_the_filled_configuration_trains_the_same_model(files, tmp_path):
    run = train("lm", files, tmp_path / "run")
    tree = run.config.tree()
    again = weft.train(tree, out=tmp_path / "again", quiet=True)
    assert again.report["valid"] == run.report["valid"]


def test_tied_weights_are_stored_once_and_stay_tied(files, tmp_path):
    run = train("lm", files, tmp_path / "run")
    stored = load_file(run.folder / "model.safetensors")
    assert sum(tensor.numel() for tensor in stored.values()) == run.report["parameters"]
    assert run.model.output.scores.weight is run.model.decoder.embedding.weight


def test_a_shared_vocabulary_is_one_tokenizer_and_one_table(files, tmp_path):
    config = {"task": "translate", "data": {"train": files["translate"]}, "model": MODELS["translate"]}
    run = weft.train(config, {"text.shared": True, "train.steps": 2}, out=tmp_path / "run", quiet=True)
    assert [path.name for path in run.folder.glob("tokenizer*")] == ["tokenizer.json"]
    again = weft.load(run.folder)
    assert again.model.encoder.embedding is again.model.decoder.embedding
    assert again.predict(["one two"]) == run.predict(["one two"])


def test_answers_do_not_depend_on_their_neighbours(files, tmp_path):
    run = train("translate", files, tmp_path / "run")
    inputs = ["one", "two three four five", "six one two"]
    together = run.predict(inputs, beam=3, n_best=2)
    for text, answer in zip(inputs, together, strict=True):
        [alone] = run.predict([text], beam=3, n_best=2)
        assert [candidate.text for candidate in alone.candidates] == [candidate.text for candidate in answer.candidates]
        assert alone.score == pytest.approx(answer.score, abs=1e-5)


def test_decoding_options_are_the_settings_of_decode(files, tmp_path):
    run = train("translate", files, tmp_path / "run")
    assert len(run.predict(["one two"], beam=3, n_best=3)[0].candidates) == 3
    with pytest.raises(ConfigError, match=r"decode\.bean: no such setting \(did you mean \"beam\"\?\)"):
        run.predict(["one"], bean=3)


def test_asking_for_a_beam_ends_sampling_and_asking_for_chance_starts_it(files, tmp_path):
    translator, language = (train(task, files, tmp_path / task) for task in ("translate", "lm"))
    assert language.decode({}).sample
    assert not translator.decode({}).sample
    beam = language.decode({"beam": 3})
    assert (beam.sample, beam.beam, beam.temperature, beam.top_p) == (False, 3, 1.0, 1.0)
    chance = translator.decode({"temperature": 0.7})
    assert (chance.sample, chance.temperature) == (True, 0.7)
    assert not language.decode({"sample": False}).sample
    with pytest.raises(ConfigError, match="only acts on sampling"):
        translator.decode({"sample": False, "temperature": 0.7})
    for both in ({"beam": 3, "temperature": 0.7}, {"beam": 3, "sample": True}):
        with pytest.raises(ConfigError, match=r"decode\.beam = 3: only acts on search, not on sampling"):
            translator.decode(both)
    assert language.decode({"beam": 1, "top_k": 5}).sample


def test_bad_lines_in_evaluation_are_counted_on_request(files, tmp_path):
    run = train("translate", files, tmp_path / "run")
    path = tmp_path / "test.tsv"
    path.write_text("one\tun\nbroken\ntwo\tdeux\n", encoding="utf-8")
    found = run.evaluate(str(path), skip_bad_lines=True)
    assert found.details["skipped"].startswith("1 bad line,")
    assert f"{path}:2" in found.details["skipped"]


def test_a_folder_that_mixes_two_runs_is_refused(files, tmp_path):
    train("lm", files, tmp_path / "one")
    wide = train("lm", files, tmp_path / "two", **{"model.hidden": 9})
    (wide.folder / "model.safetensors").write_bytes((tmp_path / "one" / "model.safetensors").read_bytes())
    seal(wide.folder)
    with pytest.raises(RunError, match="mixes files of two runs"):
        weft.load(wide.folder)


def test_sizes_are_checked_before_memory_is_taken(files, tmp_path):
    from weft.run.folder.files import write_json

    run = train("lm", files, tmp_path / "run")
    config = json.loads((run.folder / "config.json").read_text())
    config["model"]["hidden"] = 10**5
    write_json(run.folder / "config.json", config)
    seal(run.folder)
    with pytest.raises(RunError, match="mixes files of two runs"):
        weft.load(run.folder)


LOADS = """
import sys, weft
for folder in sys.argv[1:]:
    weft.load(folder, device="cpu").predict(["one two"])
print("torch._dynamo" in sys.modules)
"""


def test_loading_and_answering_need_no_compiler_of_torch(files, tmp_path):
    """To import it takes longer than all else that happens before the first answer."""
    transformer = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}
    models = [(task, MODELS[task]) for task in MODELS] + [("lm", transformer)]
    folders = [str(tmp_path / str(number)) for number in range(len(models))]
    for folder, (task, model) in zip(folders, models, strict=True):
        config = {"task": task, "data": {"train": files[task]}, "model": model, "train": {"steps": 1}}
        weft.train(config, out=folder, quiet=True)
    code = [sys.executable, "-c", LOADS, *folders]
    assert subprocess.run(code, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.covers("L7")
def test_early_stopping_keeps_the_best(files, tmp_path):
    run = train(
        "classify",
        files,
        tmp_path / "run",
        **{"train.steps": 200, "train.evaluate_every": 1, "train.patience": 3, "train.rate": 1.0},
    )
    report = run.report
    assert report["steps"] < 200
    assert "no better accuracy" in report["ended"]
    journal = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    scores = [line["valid"]["accuracy"] for line in journal if "valid" in line]
    assert report["valid"]["accuracy"] == max(scores)


def test_a_metric_that_is_not_measured_is_refused_before_the_data_is_read():
    tree = {"task": "translate", "data": {"train": "nowhere.tsv"}, "train": {"metric": "blue"}}
    with pytest.raises(ConfigError, match=r'train\.metric = "blue": is not measured here \(did you mean "bleu"\?\)'):
        weft.train(tree, quiet=True)


@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_a_signal_saves_what_was_learned(files, tmp_path, number, code):
    words = [
        "train",
        "classify",
        files["classify"],
        "train.steps=100000",
        "model.hidden=8",
        "train.evaluate_every=1000000",
    ]
    command = [sys.executable, "-m", "weft", *words, "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(tmp_path / "run" / "metrics.jsonl")
        os.kill(process.pid, number)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert f"stopped by {number.name}" in errors
    assert weft.load(tmp_path / "run").predict(["the cat"])


def wait_for(path: Path, seconds: float = 60) -> None:
    """Until the file has been written to."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.05)
