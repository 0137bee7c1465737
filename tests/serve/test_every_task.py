"""What each task reads and refuses over HTTP; no input is the path of a file."""

from __future__ import annotations

import base64
import io
import json

import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import ADDRESS, settings_of

import weft
from weft.serve.inputs import input_kind
from weft.serve.server import create_server


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("embed", {"model": "forecast", "inputs": [[1.0] * 9]}),
        ("embed", {"model": "caption", "inputs": [[[0, 1]]]}),
        ("score", {"model": "forecast", "inputs": ["the red"]}),
        ("score", {"model": "caption", "inputs": [["picture.png", "a cat"]]}),
        ("score", {"model": "tag", "inputs": ["the red"]}),
        ("score", {"model": "tag", "inputs": [[["the", "NOTHING"]]]}),
        ("score", {"model": "translate", "inputs": [[["a", "b"]]]}),
    ],
)
def test_what_a_task_has_not_is_a_mistake_of_the_request(client_of_all, path, body):
    response = client_of_all.post(f"/v1/{path}", json=body)
    assert response.status_code == 400, response.text


def test_a_request_without_inputs_is_answered_by_nothing(client_of_all, all_runs):
    for name in all_runs:
        for options in ({}, {"require": ["the"]}, {"forbid": ["the"], "prefix": ""}):
            response = client_of_all.post("/v1/predict", json={"model": name, "inputs": [], **options})
            assert response.status_code == 200 or options, response.text
            assert response.status_code < 500, (name, options)


BLANK = {"pairs": [["a cat", " "], ["", "a cat"], ["\t", "\n"]], "tag": ["", "  ", []], "default": ["", " ", "\t"]}


@pytest.mark.parametrize("options", [{}, {"forbid": ["one"]}], ids=["plain", "forbid"])
def test_an_input_without_a_text_has_no_answer(client_of_all, all_runs, options):
    for name in [name for name in all_runs if input_kind(weft.load(all_runs[name])) not in ("table", "picture")]:
        writes = weft.load(all_runs[name]).task.writes
        full, blank = ["a cat", "a dog"] if name == "pairs" else "a cat", BLANK.get(name, BLANK["default"])
        full = "a [MASK] cat" if name == "mask" else full
        for inputs in (blank, [full, *blank, full]):
            body = {"model": name, "inputs": inputs} | (options if writes else {})
            response = client_of_all.post("/v1/predict", json=body)
            assert response.status_code == 200, (name, response.text)
            found = response.json()["predictions"]
            assert [one is None for one in found] == [one in blank for one in inputs], name


def test_a_stream_of_an_input_without_a_text_ends_at_once(client_of_all):
    response = client_of_all.post("/v1/stream", json={"model": "numbers", "input": " "})
    assert response.text.split() == ["event:", "done", "data:", '{"prediction":', "null}"]


def test_blank_inputs_are_answered_as_in_files(client_of_all, all_runs, weft, tmp_path):
    lines = ["the red here", "", " ", "the cow here"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    printed = weft("predict", str(all_runs["kinds"]), str(tmp_path / "lines.txt"), "--json").out.splitlines()
    found = client_of_all.post("/v1/predict", json={"model": "kinds", "inputs": lines}).json()["predictions"]
    assert [json.loads(line) is None for line in printed] == [one is None for one in found]


def test_tagged_sentences_of_any_length_are_scored(client_of_all, all_runs):
    run = weft.load(all_runs["tag"])
    for words in (["the"], ["the", "red"], ["the", "red", "cat"]):
        item = [[word, "DET"] for word in words]
        (found,) = client_of_all.post("/v1/score", json={"model": "tag", "inputs": [item]}).json()["scores"]
        wanted = run.score([[tuple(pair) for pair in item]])[0].record()
        assert found["log_probability"] == pytest.approx(wanted["log_probability"], abs=1e-4)


def test_captions_are_scored_for_pictures_in_base64_and_never_for_files(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs: pip install 'weft[vision]'")
    rows = []
    for number, colour in enumerate(["red", "blue"] * 6):
        image.new("RGB", (8, 8), colour).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png\ta {colour} square")
    (tmp_path / "data.tsv").write_text("image\tcaption\n" + "\n".join(rows) + "\n", encoding="utf-8")
    small = {"kind": "rnn", "embedding": 4, "hidden": 4}
    config = {"task": "caption", "data": {"train": str(tmp_path / "data.tsv"), "size": 8}, "model": {"decoder": small}}
    run = weft.train({**config, "train": {"steps": 1}}, out=tmp_path / "run", quiet=True)
    with io.BytesIO() as file:
        image.new("RGB", (8, 8), "red").save(file, "PNG")
        picture = base64.b64encode(file.getvalue()).decode()
    path = str(tmp_path / "0.png")
    with TestClient(create_server(settings_of({"run": tmp_path / "run"})), base_url=ADDRESS) as client:
        (found,) = client.post("/v1/score", json={"inputs": [[picture, "a red square"]]}).json()["scores"]
        assert found["log_probability"] == pytest.approx(
            run.score([(path, "a red square")])[0].record()["log_probability"], abs=1e-4
        )
        for route, value in (("score", [path, "a red square"]), ("predict", path), ("predict", {"image": path})):
            response = client.post(f"/v1/{route}", json={"inputs": [value]})
            assert response.status_code == 400
            assert "base64" in response.json()["error"]["message"]
