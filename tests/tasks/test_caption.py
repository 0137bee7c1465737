"""Caption: a captioner learns, attends to positions, and works in every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.conftest import write_captions
from torch.testing import assert_close

import weft as library
from weft.data import BadLines
from weft.errors import ConfigError, DataError
from weft.models import CONTEXTS
from weft.run import Run

SIDE = 16
SMALL = {
    "model.encoder.channels": [16, 16],
    "model.encoder.shift": 0.0,
    "model.decoder.embedding": 16,
    "model.decoder.hidden": 32,
    "text.kind": "word",
    "text.min_count": 1,
}


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_captions(tmp_path_factory.mktemp("pictures"), 120)


@pytest.fixture(scope="module")
def run(captions: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = SMALL | {"train.epochs": 20, "train.batch_tokens": 512, "train.rate": 5e-3, "data.test": captions}
    return library.train({"task": "caption", "data": {"train": captions}}, settings, out=tmp_path_factory.mktemp("run"))


@pytest.mark.covers("M5")
def test_a_captioner_learns_colours_and_places(run: Run, captions: str) -> None:
    report = run.report
    assert report["test"]["exact"] >= 0.95
    assert report["details"]["test"]["references"] == 240
    assert run.config.data.size == SIDE
    folder = Path(captions).parent
    answers = run.predict([str(folder / "0.png"), folder / "3.png"])
    assert "red" in answers[0].text
    assert "left" in answers[0].text
    assert "blue" in answers[1].text
    assert "right" in answers[1].text


@pytest.mark.covers("M5")
def test_the_same_answer_for_a_path_an_image_and_an_array(run: Run, captions: str) -> None:
    path = Path(captions).parent / "5.png"
    image = Image.open(path)
    inputs = [path, str(path), image, np.asarray(image), np.asarray(image) / 255, {"image": str(path)}]
    texts = {run.predict(one).text for one in inputs}
    assert len(texts) == 1
    assert {answer.text for answer in run.predict(inputs)} == texts
    assert run.predict(np.stack([np.asarray(image)] * 2))[1].text in texts
    assert run.predict(str(path)).source == str(path)


def test_attention_is_over_the_positions_of_the_picture(run: Run, captions: str) -> None:
    answer = run.predict(str(Path(captions).parent / "0.png"), attention=True)
    assert answer.source_tokens[:5] == ("0,0", "0,1", "0,2", "0,3", "1,0")
    weights = answer.candidates[0].attention
    assert weights.shape == (len(answer.candidates[0].tokens) + 1, 16)
    assert_close(weights.sum(1), torch.ones(len(weights)), rtol=1e-4, atol=1e-4)


def test_every_command_reads_pictures(run: Run, captions: str, weft: Callable[..., Any], tmp_path: Path) -> None:
    folder, out = Path(captions).parent, str(run.folder)
    one = weft("predict", out, str(folder / "0.png"))
    assert one.code == 0, one.err
    assert one.out == f"{folder / '0.png'}\t{run.predict(str(folder / '0.png')).text}\n"
    assert len(weft("predict", out, str(folder)).out.splitlines()) == 120
    listed = tmp_path / "list.txt"
    listed.write_text(f"{folder / '0.png'}\n\n{folder / '3.png'}\n", encoding="utf-8")
    lines = weft("predict", out, str(listed)).out.splitlines()
    assert lines[0] == one.out.strip().split("\t")[1]
    assert lines[1] == ""
    table = weft("predict", out, captions).out.splitlines()
    assert table[0] == "image\tcaption\tpredicted_caption"
    assert len(table) == 241
    told = json.loads(weft("predict", out, str(folder / "0.png"), "--json", "--attention").out)
    assert told["source"] == str(folder / "0.png")
    assert len(told["attention"][0]) == 16
    assert "exact" in weft("evaluate", out, captions).out
    scored = weft("score", out, captions, "--json")
    assert scored.code == 0, scored.err
    assert len(scored.out.splitlines()) >= 240
    shown = weft("data", "show", "caption", captions, "--tokens").out
    assert "0.png (16 × 16 pixels, colour)" in shown
    missing = weft("predict", out, str(tmp_path / "none.png"))
    assert missing.code == 2
    assert "no such picture" in missing.err


def test_a_damaged_picture_does_not_stop_the_others(run, captions, weft, tmp_path):
    folder, good = tmp_path / "new", Path(captions).parent / "0.png"
    folder.mkdir()
    content = good.read_bytes()
    for name, part in (("a", content), ("m", content[: len(content) // 2]), ("z", content)):
        (folder / f"{name}.png").write_bytes(part)
    outcome = weft("predict", str(run.folder), str(folder))
    text = run.predict(str(good)).text
    assert outcome.out.splitlines() == [f"{folder}/a.png\t{text}", f"{folder}/m.png\t", f"{folder}/z.png\t{text}"]
    assert (outcome.code, outcome.err.count("m.png")) == (2, 1)
    assert "is damaged" in outcome.err
    table = tmp_path / "new" / "rows.csv"
    table.write_text("image\na.png\nno.png\nz.png\n", encoding="utf-8")
    outcome = weft("predict", str(run.folder), str(table))
    assert (outcome.code, outcome.out) == (2, f"image,caption\na.png,{text}\nno.png,\nz.png,{text}\n")
    assert "rows.csv:3" in outcome.err


@pytest.mark.parametrize("decoder", [*CONTEXTS, "transformer"])
def test_any_decoder_reads_pictures_and_decodes_like_its_full_pass(decoder: str, captions: str, tmp_path: Path) -> None:
    own = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1} if decoder == "transformer" else None
    model = {"decoder": own or {"context": decoder, "hidden": 8, "embedding": 8}, "encoder": {"channels": [8]}}
    config = {"task": "caption", "data": {"train": captions}, "model": model, "train": {"steps": 2}}
    made = library.train(config, out=tmp_path / "run")
    folder = Path(captions).parent
    answer = made.predict(str(folder / "0.png"), beam=1, max_length=6)
    best = answer.candidates[0]
    (scored,) = made.score([(str(folder / "0.png"), best.text)])
    if best.finished:
        assert scored.total == pytest.approx(sum(best.log_probabilities), abs=1e-3)
    assert (folder / "0.png").name in scored.source


def test_given_feature_vectors_replace_pictures(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    words = {"cat": 0, "dog": 1, "cow": 2}
    rows = [
        {"features": (draws.normal(size=(2 + n % 3, 4)) / 4 + np.eye(4)[words[word]]).tolist(), "caption": f"a {word}"}
        for n in range(30)
        for word in words
    ]
    settings = {"data.features": "features", "train.steps": 150, "train.rate": 1e-2, "text.min_count": 1}
    run = library.train({"task": "caption", "data": {"train": rows}}, settings, out=tmp_path / "run")
    assert run.config.model.encoder.kind == "linear"
    assert run.report["valid"]["exact"] > 0.8
    again = library.load(run.folder)
    vectors = np.eye(4)[[1, 1]]
    assert again.predict(vectors).text == run.predict([vectors.tolist()])[0].text == "a dog"
    with pytest.raises(DataError, match="training data has 4"):
        run.predict([[[1.0, 2.0]]])


def test_settings_that_do_not_go_together_are_refused(captions: str) -> None:
    for data, encoder, message in (
        ({"features": "x"}, "conv", "reads pictures"),
        ({}, "linear", "reads feature vectors"),
    ):
        config = {"task": "caption", "data": {"train": captions, **data}, "model": {"encoder": {"kind": encoder}}}
        with pytest.raises(ConfigError, match=message):
            library.train(config)


def test_the_validation_part_shares_no_picture(captions: str) -> None:
    from weft.run.prepare import prepare

    prepared = prepare({"task": "caption", "data": {"train": captions}})
    assert prepared.valid.records is not None
    held = {pair.key for pair in prepared.valid.records}
    assert 0 < len(held) == len(prepared.valid)
    assert len(prepared.train) + sum(len(pair.references) for pair in prepared.valid.records) == 240


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects the size of every picture that is decoded."""
    from weft.data import images

    seen: list[Any] = []
    decode = images._decoded
    monkeypatch.setattr(images, "_decoded", lambda *arguments: seen.append(arguments[1]) or decode(*arguments))
    return seen


@pytest.fixture
def scattered(captions: str, tmp_path: Path) -> str:
    """The table with the captions of a picture far apart."""
    head, *rows = Path(captions).read_text(encoding="utf-8").splitlines()
    lines = [f"{Path(captions).parent}/{row}" for row in rows[::2] + rows[1::2]]
    table = tmp_path / "scattered.tsv"
    table.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return str(table)


def test_a_picture_is_stored_once_and_every_caption_has_its_pixels(scattered: str, decoded: list[Any]) -> None:
    from weft.data import read_pixels
    from weft.run.prepare import prepare

    prepared = prepare({"task": "caption", "data": {"train": scattered, "valid": scattered}, "text": {"kind": "word"}})
    assert len(decoded) == 120 + 120 + 120  # training, validation, and the sample whose mean and scale are measured
    task, examples = prepared.task, prepared.train
    assert len(examples) == 240
    assert examples.columns["pixels"].size == 120 * SIDE * SIDE * 3 // 4
    by_caption: dict[str, list[bytes]] = {}
    for pair in task.read(scattered, task.data, BadLines()):
        pixels = read_pixels(pair.picture, size=SIDE, channels=3)
        by_caption.setdefault(task.target.decode(task.target.encode(pair.target)), []).append(pixels.tobytes())
    for row in range(len(examples)):
        batch = task.collate(examples, [row])
        caption = task.target.decode(examples.columns["target"][row][1:-1].tolist())
        assert batch.source[0].numpy().tobytes() in by_caption[caption]


def test_decoded_pictures_are_kept_for_the_next_run(
    scattered: str, decoded: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from weft.run.prepare import prepare
    from weft.tasks import caption

    monkeypatch.setattr(caption, "MIN_CACHED_PIXELS", 1)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    tree = {"task": "caption", "data": {"train": scattered, "valid": scattered}, "text": {"kind": "word"}}
    first = prepare(tree)
    decoded.clear()
    second = prepare(tree)
    assert len(decoded) == 120  # those of the validation data
    rows = np.arange(240)
    assert np.array_equal(first.train.columns["pixels"].join(rows), second.train.columns["pixels"].join(rows))
    name = Path(scattered).read_text(encoding="utf-8").splitlines()[1].split("\t")[0]
    before = Path(name).read_bytes()
    try:
        Image.new("RGB", (SIDE, SIDE), "white").save(name)
        third = prepare(tree)
    finally:
        Path(name).write_bytes(before)
    assert not np.array_equal(first.train.columns["pixels"].join(rows), third.train.columns["pixels"].join(rows))


def test_prediction_decodes_each_picture_once(
    run: Run, captions: str, decoded: list[Any], weft: Callable[..., Any], tmp_path: Path
) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(f"{Path(captions).parent / '0.png'}\n", encoding="utf-8")
    for source, count in ((Path(captions).parent, 120), (listed, 1), (Path(captions).parent / "0.png", 1)):
        decoded.clear()
        assert weft("predict", str(run.folder), str(source)).code == 0
        assert decoded == [SIDE] * count


def test_a_picture_that_changes_after_it_was_opened_is_named(captions: str, tmp_path: Path) -> None:
    from weft.data.images import open_picture, read_pixels

    path = tmp_path / "one.png"
    path.write_bytes((Path(captions).parent / "0.png").read_bytes())
    picture = open_picture(str(path))
    Image.new("L", (3, 3)).save(path)
    with pytest.raises(DataError, match="has changed since it was opened"):
        read_pixels(picture, size=SIDE, channels=1)
