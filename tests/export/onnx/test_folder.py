"""`weft export --to onnx` as a user runs it: what is written, compared, measured and refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.export.onnx.built import assert_like, build_run, exported
from tests.export.onnx.test_answers import RNN, TRANSFORMER, WORD, records, tree

from weft.errors import ConfigError, Fault
from weft.export import export_run
from weft.export.onnx import Runner
from weft.export.onnx import agree as agreement
from weft.export.onnx.samples import sample_inputs
from weft.tasks.caption import Caption


def test_a_folder_has_all_that_its_readme_uses(tmp_path: Path) -> None:
    run = build_run("translate", tmp_path, **tree(RNN, TRANSFORMER))
    found = export_run(run, to="onnx", out=tmp_path / "out")
    assert found.agreement.difference < 1e-4
    assert found.agreement.greedy == found.agreement.beam == 1.0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"encode.onnx", "step.onnx", "model.json", "README.md", "manifest.json"} <= names
    assert names - {"manifest.json"} == set(json.loads((tmp_path / "out" / "manifest.json").read_text())["files"])
    assert "from weft.export.onnx import Runner" in (tmp_path / "out" / "README.md").read_text()
    vectors = Runner(tmp_path / "out").embed(["the cat", "a dog"])
    np.testing.assert_allclose(vectors, run.embed(["the cat", "a dog"]), atol=1e-4)


def test_a_folder_that_disagrees_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = build_run("classify", tmp_path, model=RNN, text=WORD)
    monkeypatch.setattr(agreement, "LOGIT_TOLERANCE", -1.0)
    with pytest.raises(Fault, match="differs in a number"):
        export_run(run, to="onnx", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ["classify", "tag", "lm", "translate"])
def test_int8_is_smaller_near_and_measured(task: str, tmp_path: Path) -> None:
    sections: dict[str, Any] = tree({**RNN, "hidden": 32}, TRANSFORMER)
    if task != "translate":
        sections = {"model": {**RNN, "hidden": 32}, "text": WORD}
    run = build_run(task, tmp_path, std=0.05, **sections)
    data = run.config.data.train
    found = export_run(run, to="onnx", out=tmp_path / "out", quantization="int8", data=data)
    assert found.loss is not None
    assert "int8" in found.loss
    plain = exported(run, tmp_path / "plain")
    sizes = [
        sum(path.stat().st_size for path in folder.glob("*.onnx")) for folder in (tmp_path / "out", tmp_path / "plain")
    ]
    assert sizes[0] < 0.8 * sizes[1]
    if task == "classify":
        inputs = sample_inputs(run)
        ours, theirs = plain.predict(inputs), Runner(tmp_path / "out").predict(inputs)
        assert_like([one["probability"] for one in ours], [one["probability"] for one in theirs], tolerance=0.05)


def test_a_captioner_describes_pictures(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="needs weft[vision]")
    rows = ["image\tcaption"]
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 20, 3), dtype=np.uint8)
        pillow.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png\ta picture of {number}")
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    from weft.config import validate
    from weft.data import BadLines
    from weft.run import Run

    model = {"encoder": {"kind": "conv", "channels": [4, 8], "layers": 2}, "decoder": {**RNN, "attention": "dot"}}
    config = validate(
        {"task": "caption", "data": {"train": str(tmp_path / "train.tsv"), "size": 16}, "model": model, "text": WORD},
        keep_unread=True,
    )
    codec = Caption.learn(list(Caption.read(str(tmp_path / "train.tsv"), config.data, BadLines())), config.text)
    torch.manual_seed(0)
    run = Run(tmp_path, config, Caption(codec, config.data), Caption.build(config.model, codec).eval())
    runner, inputs = exported(run, tmp_path / "out"), sample_inputs(run)
    given = {"beam": 3, "max_length": 6, "attention": True}
    assert_like(records(run.predict(inputs, **given)), runner.predict(inputs, **given))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam = 0"),
        ({"beams": 3}, "did you mean"),
        ({"prefix": 5}, "prefix: 5 is no text"),
        ({"groups": 2}, "use weft predict"),
        ({"n_best": 9}, "more than beam"),
        ({"temperature": -1.0}, "temperature"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    run = build_run("lm", tmp_path, model=RNN, text=WORD)
    with pytest.raises(ConfigError, match=message):
        exported(run, tmp_path / "out").predict("the cat", **options)


def test_models_that_count_are_refused_in_a_line(tmp_path: Path) -> None:
    run = build_run("lm", tmp_path, std=0.0, model={"kind": "ngram"}, text=WORD)
    with pytest.raises(ConfigError, match="--to c"):
        export_run(run, to="onnx", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_a_gpu_or_onnxruntime_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = build_run("lm", tmp_path, model=RNN, text=WORD)
    exported(run, tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
        with pytest.raises(ConfigError, match="onnxruntime-gpu"):
            Runner(tmp_path / "out", device="cuda")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match="Runner: needs onnxruntime"):
        Runner(tmp_path / "out")
