"""What is refused, in which words, and that the next good request is served."""

from __future__ import annotations

import pytest

GOOD = {"model": "kinds", "inputs": ["the red here"]}


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"inputs": ["a"]}, "model", "this server has several (one of kinds, numbers, words)"),
        ({"model": "numers", "inputs": ["a"]}, "model", 'did you mean "numbers"?'),
        ({"model": "numbers"}, "inputs", "required"),
        ({"model": "numbers", "inputs": "a"}, "inputs", "list"),
        ({"model": "numbers", "inputs": ["a", 3]}, "inputs[1]", "send a text"),
        ({"model": "numbers", "inputs": ["a", "b" * 501]}, "inputs[1]", "501 characters, and 500 is the limit"),
        ({"model": "numbers", "inputs": ["a"] * 21}, "inputs", "21 inputs, and 20 is the limit"),
        ({"model": "numbers", "inputs": ["a"], "beam": 9}, "beam", "at most 8"),
        ({"model": "numbers", "inputs": ["a"], "beam": 0}, "beam", "greater than or equal to 1"),
        ({"model": "numbers", "inputs": ["a"], "max_length": 65}, "max_length", "at most 64"),
        ({"model": "numbers", "inputs": ["a"], "beem": 2}, "beem", 'did you mean "beam"?'),
        ({"model": "numbers", "inputs": ["a"], "forbid": [1]}, "forbid", "is no list of words"),
        ({"model": "numbers", "inputs": ["a"], "temperature": 1.5, "sample": False}, "temperature", "sample"),
        ({"model": "kinds", "inputs": ["a"], "beam": 2}, "beam", "is no option of this model"),
        ({"model": "kinds", "inputs": ["a"], "prefix": "b"}, "prefix", "writes no text"),
        ({"model": "kinds", "inputs": [{"body": "a"}]}, "inputs[0]", 'no "text"'),
        ({"model": "kinds", "inputs": ["a\0b"]}, "inputs[0]", "NUL"),
    ],
)
def test_a_mistake_names_its_place_and_the_cure(client, body, param, said):
    response = client.post("/v1/predict", json=body)
    assert 400 <= response.status_code < 500
    error = response.json()["error"]
    assert error["param"] == param
    assert said in error["message"]
    assert error["type"] in ("invalid_request_error", "not_found_error")
    assert client.post("/v1/predict", json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe{}", 400),
        (b'{"inputs": ["\xff"]}', 400),
        (b'{"inputs": ["\\ud800"]}', 400),
        (b'{"inputs": [NaN]}', 400),
        (b'{"inputs": [' + b"[" * 30_000, 400),
        (b'{"a": ' * 9_000, 400),
        (b'{"inputs": [' + b"9" * 5000 + b"]}", 400),
        (b'{"inputs": ["a"], "inputs": ["b"]}', 400),
        (b'{"inputs": ["' + b"a" * (1 << 16) + b'"]}', 413),
    ],
)
def test_a_hostile_body_is_a_mistake_and_the_next_one_is_served(client, content, status):
    for route in ("/v1/predict", "/v1/score", "/v1/embed", "/v1/stream", "/v1/completions", "/v1/reload"):
        response = client.post(route, content=content, headers={"content-type": "application/json"})
        assert response.status_code == status, response.text
        assert set(response.json()["error"]) <= {"message", "type", "param"}
    assert client.post("/v1/predict", json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("route", "body", "param", "said"),
    [
        ("score", {"model": "kinds", "inputs": ["a"]}, "model", 'model: "kinds" gives no probability to texts'),
        ("stream", {"model": "kinds", "input": "a"}, "model", "(use POST /v1/predict)"),
        ("completions", {"model": "words", "prompt": [1, 2]}, "prompt", "token ids are not accepted (send a text"),
        ("completions", {"model": "words", "prompt": [[1, 2]]}, "prompt", "token ids are not accepted (send a text"),
    ],
)
def test_what_a_model_or_a_route_cannot_do_is_named(client, route, body, param, said):
    response = client.post(f"/v1/{route}", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert said in response.json()["error"]["message"]


def test_a_model_without_vectors_is_named(client_of_all):
    response = client_of_all.post("/v1/embed", json={"model": "counts", "inputs": ["one two"]})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == "model"
    assert error["message"].startswith('model: "counts" has no states')


def test_a_wrong_input_ends_only_its_own_request(client):
    """A word of a tokenizer's unknown, and an input that the model cannot read, beside good ones."""
    assert client.post("/v1/score", json={"model": "numbers", "inputs": [["a"]]}).status_code == 400
    assert client.post("/v1/score", json={"model": "kinds", "inputs": ["a"]}).status_code == 400
    assert client.post("/v1/embed", json={"model": "kinds", "inputs": ["a"], "level": "page"}).status_code == 400
    assert client.post("/v1/predict", json={"model": "kinds", "inputs": []}).json() == {"predictions": []}
    assert client.post("/v1/predict", json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/predict", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/models/no", 404),
        ("GET", "/v1/models/", 404),
    ],
)
def test_routes_and_methods_that_are_not_there(client, method, path, status):
    response = client.request(method, path, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert response.json()["error"]["message"]


def test_other_media_hosts_and_origins_are_refused(client):
    assert client.post("/v1/predict", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
    assert client.post("/v1/predict", json=GOOD, headers={"origin": "http://evil.example"}).status_code == 403


def test_health_readiness_models_and_metrics(client):
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == {"status": "ready", "models": ["kinds", "numbers", "words"]}
    models = {one["id"]: one for one in client.get("/v1/models").json()["data"]}
    assert models["numbers"]["task"] == "translate"
    assert client.get("/v1/models/words").json()["object"] == "model"
    client.post("/v1/predict", json=GOOD)
    client.get("/a-name-that-nobody-knows")
    lines = client.get("/metrics").text
    for name in ("requests_total", "request_seconds_bucket", "queue_length", "batch_size_bucket", "rejected_total"):
        assert f"weft_{name}" in lines
    assert 'weft_requests_total{route="/v1/predict",status="200"}' in lines
    assert "nobody-knows" not in lines
    assert float(lines.split("\nweft_resident_bytes ")[1].split("\n")[0]) > 1e6


def test_every_response_has_an_id_and_headers(client):
    response = client.get("/healthz", headers={"x-request-id": "abc-1"})
    assert response.headers["x-request-id"] == "abc-1"
    assert response.headers["x-content-type-options"] == "nosniff"
    other = client.get("/healthz", headers={"x-request-id": "a b\tc"}).headers["x-request-id"]
    assert len(other) == 16


@pytest.mark.parametrize(
    ("options", "param", "begins"),
    [
        ({"language": "de"}, "language", "language = de"),
        ({"beam": 17}, "beam", "beam = 17"),
        ({"n_best": 5, "beam": 2}, None, "n_best = 5"),
    ],
)
def test_an_error_names_the_option_as_the_request_does(client, options, param, begins):
    error = client.post("/v1/predict", json={"model": "numbers", "inputs": ["one"], **options}).json()["error"]
    assert error.get("param") == param
    assert error["message"].startswith(begins)
