"""The studio over HTTP: runs, details, views, answers, curves, comparisons, lessons, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from tests.studio.conftest import ADDRESS, TOKEN

import weft
from weft.errors import ConfigError, DataError
from weft.inspect import VIEWS, view_kind
from weft.run import import_classes
from weft.serve import inputs as served_inputs
from weft.studio import answers, create_app, inputs, views
from weft.studio.discovery import Found
from weft.studio.loaded import LoadedRuns

NUMBERS = "/api/runs/runs/numbers"
FIRST = "/api/runs/runs/words/first"


def message(response):
    return response.json()["error"]["message"]


def events(response):
    parts = [part.split("\n") for part in response.text.strip().split("\n\n")]
    return [(lines[-2].removeprefix("event: "), json.loads(lines[-1].removeprefix("data: "))) for lines in parts]


def test_the_studio_starts_without_torch():
    code = "import sys, weft.studio; print(sorted({'torch', 'numpy', 'altair'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_health_and_the_list_of_runs(client):
    assert client.get("/api/health").json()["status"] == "ok"
    rows = {row["id"]: row for row in client.get("/api/runs").json()}
    assert rows["runs/numbers"]["state"] == "finished"
    row = rows["runs/words/first"]
    assert (row["metric_name"], row["shown"]) == ("accuracy", f"{100 * row['value']:.2f}%"), "as in the terminal"
    assert "error" in rows["runs/cut"]
    assert client.get("/api/ladders").json() == []


def test_info_has_what_a_page_builds_its_controls_from(client, extras):
    info = client.get("/api/info").json()
    assert {"version", "themes", "views", "cells", "toys", "limits", "writable"} <= info.keys()
    assert info["writable"] is True
    assert "lstm" in info["cells"]
    named = {view["name"]: view for view in info["views"]}
    assert set(named) <= set(VIEWS)
    assert {"gradients", "parameters", "curves"} <= set(named)
    assert named["gradients"]["takes_target"]
    assert info["lesson"]["length"]["high"] == 512
    assert "width" not in named["positions"]["options"], "a run has its own"


def test_details_of_a_run(client):
    found = client.get(f"{NUMBERS}/details").json()
    assert found["config"]["task"] == "translate"
    assert (found["inputs"], found["writes"]) == ("text", True)
    assert "bleu" in found["report"]["valid"]
    assert found["examples"][0].split()[0] in inputs_of_numbers()
    assert client.get(f"{FIRST}/details").json()["labels"] == ["animal", "colour"]


def inputs_of_numbers():
    return {"one", "two", "three", "four", "five", "six"}


def test_examples_are_read_only_below_the_given_folders(runs):
    with TestClient(create_app([runs]), base_url=ADDRESS) as alone:
        details = alone.get("/api/runs/numbers/details").json()
    assert details["examples"] == [], "sentences of other words say nothing about a run of numbers"
    assert details["examples_hint"].endswith(str(runs.parent / "data"))


def test_the_hint_names_a_file_where_its_folder_has_no_name():
    run = SimpleNamespace(config=SimpleNamespace(data=SimpleNamespace(valid=None, train="train.tsv")))
    assert inputs.examples_hint(run).endswith("the one that has train.tsv")


@pytest.mark.parametrize(("name", "offered"), [("phrasebook", True), ("other", False)])
def test_sentences_are_offered_to_runs_of_the_phrasebook(tmp_path, name, offered):
    data = tmp_path / name / "lm" / "train.txt"
    data.parent.mkdir(parents=True)
    data.write_text("\n".join(inputs.SENTENCES * 20), encoding="utf-8")
    tree = {"task": "lm", "data": {"train": str(data)}, "train": {"steps": 1}}
    run = weft.train(tree | {"model": {"kind": "rnn", "embedding": 4, "hidden": 4}}, out=tmp_path / "run")
    assert inputs.example_inputs(run, []) == (list(inputs.SENTENCES) if offered else [])


@pytest.mark.parametrize("id", ["cut", "begun"])
def test_a_run_that_cannot_be_loaded_is_one_error(client, id):
    response = client.get(f"/api/runs/runs/{id}/details")
    assert response.status_code == 400
    assert message(response)


@pytest.mark.parametrize("id", ["nothing", "..%2foutside", "runs/link", "%2e%2e/outside"])
def test_no_other_folder_can_be_opened(client, id):
    assert client.get(f"/api/runs/{id}/details").status_code == 404


def test_a_view_of_a_run(client, extras):
    response = client.post(f"{NUMBERS}/view/gradients", json={"text": "one two", "options": {}})
    found = response.json()
    assert response.status_code == 200, found
    assert found["view"] == "gradients"
    assert found["specification"]["$schema"]
    assert found["table"]["rows"]
    assert found["code"].endswith(", 'one two')")
    assert found["question"] == view_kind("gradients").question


def test_a_view_that_a_model_has_nothing_for_has_no_picture(client, extras):
    found = client.post(f"{FIRST}/view/gradients", json={"text": "the cat", "options": {}}).json()
    assert found["specification"] is None
    assert found["summary"].startswith("There is nothing to show")


def test_curves_need_no_model(client, extras):
    """The first epoch of a training has a journal alone."""
    assert client.get("/api/runs/runs/begun/details").status_code == 400
    found = client.post("/api/runs/runs/begun/view/curves", json={"options": {}}).json()
    assert found["specification"] is not None
    assert next(iter(found["data"]["runs"].values()))["train"] == [[1, 2.5]]
    assert found["code"].startswith("weft.inspect.curves('")
    assert client.post("/api/runs/runs/begun/view/curves", json={"options": {"layer": 1}}).status_code == 400


def test_a_forecaster_shows_its_gates_for_a_table(tmp_path, extras):
    table = {"step": list(range(60)), "sales": [20 + step % 7 for step in range(60)]}
    settings = {"train": table, "target": "sales", "season": 7, "horizon": 7}
    weft.train({"task": "forecast", "data": settings}, {"train.steps": 2, "model.hidden": 8}, out=tmp_path / "sales")
    text = "step,sales\n" + "".join(f"{step},{sales}\n" for step, sales in zip(*table.values(), strict=True))
    with TestClient(create_app([tmp_path]), base_url=ADDRESS) as client:
        views = client.get("/api/runs/sales/details").json()["views"]
        assert {"gates", "states", "gradients", "curves"} <= set(views)
        assert "neighbours" not in views
        for view in ("gates", "states", "gradients", "attention"):
            found = client.post(f"/api/runs/sales/view/{view}", json={"text": text, "options": {}}).json()
            assert (found["specification"] is None) == (view == "attention"), found
            if view == "gates":
                again = eval(found["code"], {"weft": weft})
                assert again.to_dict() == found["data"]
        answer = client.post("/api/runs/sales/predict", json={"text": text}).json()
        assert answered_by(answer["code"]) == answer["predictions"][0]
        refused = client.post("/api/runs/sales/predict", json={"text": "step,sales\n"})
        assert refused.status_code == 400
        assert "without rows" in message(refused)


def answered_by(code):
    """Run the code and return the record of its first answer."""
    before, call, inputs_and_options = code.partition("run.predict(")
    names = {}
    exec(before, names)
    found = eval(call + inputs_and_options, names)
    return json.loads(json.dumps((found[0] if isinstance(found, list) else found).record()))


@pytest.mark.parametrize("text", ["one two", 'a "quoted"\nline'])
def test_the_code_of_an_answer_answers_the_same(client, text):
    found = client.post(f"{NUMBERS}/predict", json={"text": text, "options": {"beam": 3, "n_best": 2}}).json()
    assert answered_by(found["code"]) == found["predictions"][0]


OWN = """
import torch
from weft.nn import Cell
from weft.nn.linear import Linear


class Leaky(Cell):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.map = Linear(input_size + hidden_size, hidden_size)

    def step(self, x, h):
        h = torch.tanh(self.map(torch.cat((x, h), -1)))
        return h, h
"""


def test_the_code_shown_imports_a_cell_of_the_users_own(tmp_path, extras):
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    word = f"{tmp_path / 'mine.py'}:Leaky"
    tree = {"task": "lm", "data": {"train": ["a b c", "b c a"] * 8, "valid": ["a b"]}, "train": {"steps": 1}}
    tree |= {"model": {"kind": "rnn", "cell": "Leaky", "hidden": 4, "embedding": 4}, "text": {"kind": "word"}}
    for name in ("one", "two"):
        weft.train(tree, out=tmp_path / "runs" / name, cells=import_classes([word]))
    with TestClient(create_app([tmp_path / "runs"], imports=[word]), base_url=ADDRESS) as client:
        compared = client.post("/api/compare", json={"runs": ["one", "two"]}).json()
        assert shlex.split(compared["code"])[-2:] == ["--import", word]
        shown = client.post("/api/runs/one/view/ranks", json={"text": "a b"}).json()
    assert eval(shown["code"], {"weft": weft}).to_dict() == shown["data"]


def test_the_example_of_a_forecast_with_known_columns_can_be_answered(tmp_path):
    rows = [f"{step},{shop},{20 + step % 7},{step % 7}\n" for shop in "ab" for step in range(40)]
    (tmp_path / "sales.csv").write_text("step,shop,sales,day\n" + "".join(rows))
    columns = {"target": "sales", "series": "shop", "known": ["day"], "time": "step"}
    settings = {"train": str(tmp_path / "sales.csv"), "horizon": 5, "history": 8} | columns
    weft.train({"task": "forecast", "data": settings}, {"train.steps": 2, "model.hidden": 8}, out=tmp_path / "run")
    with TestClient(create_app([tmp_path]), base_url=ADDRESS) as client:
        (text,) = client.get("/api/runs/run/details").json()["examples"]
        assert [line.split(",")[2] == "" for line in text.splitlines()[36:41]] == [True] * 5
        found = client.post("/api/runs/run/predict", json={"text": text})
        assert found.status_code == 200, found.text
        assert [len(answer["forecast"]) for answer in found.json()["predictions"]] == [5, 5]


def test_neighbours_of_a_pair_are_those_of_its_words(tmp_path, extras):
    rows = [{"text": "the cat", "second": f"a {word}", "label": word} for word in ("dog", "cow") for _ in range(8)]
    config = {
        "task": "classify",
        "data": {"train": rows, "valid": rows, "pair": "second"},
        "model": {"kind": "rnn", "hidden": 8},
    }
    weft.train(config, {"text.kind": "word", "train.steps": 1}, out=tmp_path / "pairs")
    with TestClient(create_app([tmp_path]), base_url=ADDRESS) as client:
        found = client.post("/api/runs/pairs/view/neighbours", json={"text": "the cat\ta dog"}).json()
        assert found["data"]["query"].split() == ["the", "cat", "a", "dog"]


def test_a_view_that_is_not_there_is_a_clear_error(client, monkeypatch):
    assert client.post(f"{NUMBERS}/view/nothing", json={}).status_code == 404
    monkeypatch.setitem(VIEWS, "planned", "module_of_the_future")
    response = client.post(f"{NUMBERS}/view/planned", json={"text": "one"})
    assert response.status_code == 501
    assert "no view planned" in message(response)
    assert "planned" not in views.available_views()


def test_wrong_options_of_a_view_are_refused(client):
    response = client.post(f"{NUMBERS}/view/gradients", json={"text": "one", "options": {"depth": 3}})
    assert response.status_code == 400
    assert "gradients has no options" in message(response)
    assert client.post(f"{NUMBERS}/view/gradients", json={"text": " "}).status_code == 400
    assert client.post(f"{NUMBERS}/view/gradients", json={"text": "one", "code": "1"}).status_code == 422


@pytest.mark.parametrize("path", [f"{NUMBERS}/view/ranks", f"{NUMBERS}/predict", f"{NUMBERS}/search", "/api/compare"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[1]", "no JSON object"),
        (b"", "no JSON"),
        (b'{"text": "\xff"}', "not text in UTF-8"),
        (b'{"text": "one", "options": {"\\ud800": 1}}', "half of a surrogate pair"),
        (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"text": "one", "options": {"beam": ' + b"9" * 5000 + b"}}", "digits"),
        (b'{"text": "one", "options": {"temperature": NaN}}', "no JSON"),
    ],
)
def test_a_body_that_is_no_plain_json_object_is_refused(client, path, content, said):
    response = client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert said in message(response)


def test_predictions_are_those_of_predict(client, runs):
    import weft

    found = client.post(f"{NUMBERS}/predict", json={"text": "one two", "options": {"beam": 2, "n_best": 2}}).json()
    expected = weft.load(runs / "numbers").predict("one two", beam=2, n_best=2).record()
    assert found["predictions"] == [json.loads(json.dumps(expected))]
    label = client.post(f"{FIRST}/predict", json={"text": "the cat here"}).json()["predictions"][0]
    assert label["label"] in ("animal", "colour")


def test_a_stream_ends_with_the_whole_text(client):
    response = client.post(f"{NUMBERS}/stream", json={"text": "one two", "options": {"max_length": 5, "beam": 1}})
    assert response.headers["content-type"].startswith("text/event-stream")
    *pieces, (last, done) = events(response)
    assert last == "done"
    assert "".join(data["text"] for name, data in pieces if name == "piece") == done["prediction"]["text"]


def test_an_error_in_a_stream_is_an_event(client):
    ((name, data),) = events(client.post(f"{FIRST}/stream", json={"text": "the cat"}))
    assert name == "error"
    assert "writes no text" in data["message"]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1000},
        {"beam": "wide"},
        {"max_length": 10**9},
        {"temperature": 0},
        {"unknown": 1},
        {"forbid": "cat"},
        {"forbid": ["x"] * 100},
        {"sample": "yes"},
        {"beam": True},
    ],
)
def test_options_outside_their_bounds_are_refused(client, options):
    response = client.post(f"{NUMBERS}/predict", json={"text": "one", "options": options})
    assert response.status_code == 400
    with pytest.raises(ConfigError):
        answers.read_options(options)


def test_long_texts_are_refused(client):
    response = client.post(f"{NUMBERS}/predict", json={"text": "a" * (inputs.MAX_CHARACTERS + 1)})
    assert response.status_code == 400
    assert "is the limit" in message(response)


def picture(side: int) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def test_pictures_come_as_bytes_within_limits_and_never_as_a_path(tmp_path, monkeypatch):
    found = served_inputs.read_picture(f"data:image/png;base64,{picture(8)}")
    assert (found.width, found.height) == (8, 8)
    path = tmp_path / "own.png"
    path.write_bytes(base64.b64decode(picture(8)))
    for text in (str(path), "../own.png", "data:image/png;base64,????"):
        with pytest.raises(DataError, match="is no picture in base64"):
            served_inputs.read_picture(text)
    with pytest.raises(DataError, match="is no picture of a known format"):
        served_inputs.read_picture(base64.b64encode(b"no picture").decode())
    with pytest.raises(DataError, match="pixels, and 20,000,000 is the limit"):
        served_inputs.read_picture(picture(5000))
    monkeypatch.setattr(served_inputs, "MAX_PICTURE_BYTES", 10)
    with pytest.raises(DataError, match="more than 10 bytes"):
        served_inputs.read_picture(picture(8))


def test_a_curve_has_the_points_of_the_journal(client):
    found = client.get(f"{NUMBERS}/curve").json()
    assert found["train"][0][0] == 1
    assert found["valid"]
    assert found["metric"] in found["valid"][0][1]
    assert found["state"] == "finished"
    assert events(client.get(f"{NUMBERS}/events")) == [("state", {"state": "finished"})]


def test_runs_are_compared_with_intervals(client, extras):
    ids = ["runs/words/first", "runs/words/second"]
    found = client.post("/api/compare", json={"runs": ids}).json()
    assert [row["id"] for row in found["rows"]] == ids
    assert found["metric"] == "accuracy"
    for row in found["rows"]:
        assert row["low"] <= row["value"] <= row["high"]
    assert {"setting": "train.epochs", "values": [1, 2]} in found["differences"]
    assert found["rows"][0]["shown"]["value"] == f"{100 * found['rows'][0]['value']:.2f}%"
    assert shlex.split(found["code"])[:2] == ["weft", "compare"]
    assert '"words/first"' in json.dumps(found["specification"]), "curves have the names of the list"
    assert "data/labels.tsv" in client.get("/api/files").json()
    measured = client.post("/api/compare", json={"runs": ids, "data": "data/labels.tsv"}).json()
    assert {"difference", "low", "high"} <= measured["rows"][1]["difference"].keys()


def test_a_comparison_reads_no_other_file(client):
    response = client.post("/api/compare", json={"runs": ["runs/numbers"], "data": "/etc/passwd"})
    assert response.status_code == 404
    both = client.post("/api/compare", json={"runs": ["runs/numbers", "runs/words/first"]})
    assert "different tasks" in message(both)


def test_the_lesson_on_gradients(client, extras):
    body = {"cells": ["elman", "lstm"], "length": 20, "hidden": 8}
    found = client.post("/api/lesson/gradients", json=body).json()
    assert [line["name"] for line in found["data"]["lines"]] == ["elman", "lstm"]
    assert found["specification"]
    assert "length=20" in found["code"]
    assert client.post("/api/lesson/gradients", json={"cells": ["nothing"]}).status_code == 400
    assert client.post("/api/lesson/gradients", json=body | {"length": 10**6}).status_code == 400


def test_a_search_for_states_that_is_not_there_is_a_clear_error(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "weft.inspect.state_search", None)
    response = client.post(f"{NUMBERS}/search", json={"corpus": "one two"})
    assert response.status_code == 501
    assert "no search for states" in message(response)


def test_files_of_the_page_are_those_of_its_folder(client):
    assert "drawChart" in client.get("/static/figure.js").text
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "nothing.js", ""):
        assert client.get(f"/static/{name}").status_code == 404


def test_a_run_is_loaded_once_and_again_when_it_changed(runs, data):
    loaded = LoadedRuns({}, runs=1)
    first = Found("first", runs / "words" / "first")
    run = loaded.get(first)
    assert loaded.get(first) is run
    loaded.get(Found("second", runs / "words" / "second"))
    assert list(loaded.entries) == ["second"]
    again = loaded.get(first)
    assert again is not run
    manifest = first.folder / "manifest.json"
    content = manifest.read_bytes()
    manifest.unlink()
    manifest.write_bytes(content)
    assert loaded.get(first) is not again


def test_training_needs_the_token(client, runs):
    order = {"models": [{}], "toy": "copy"}
    assert client.post("/api/learn", json=order).status_code == 403
    assert client.post("/api/learn", json=order, headers={"x-weft-token": TOKEN[:-1]}).status_code == 403
    assert client.post("/api/learn/x/stop", json={}).status_code == 403
    with TestClient(create_app([runs]), base_url=ADDRESS) as closed:
        assert closed.post("/api/learn", json=order, headers={"x-weft-token": ""}).status_code == 403
        assert client.app.state.studio.playground.training is None
