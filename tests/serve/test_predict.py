"""Requests and their answers: those of `weft predict`, `score` and `embed`, alone and many at once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import httpx
from tests.serve.conftest import ADDRESS, settings_of

import weft
from weft.serve.groups import SearchGroup
from weft.serve.server import create_server

SOURCES = ["one two", "three", "six five four three", "two two two"]


def close(found, wanted):
    """Equal, numbers up to rounding: they depend in the last digits on how many are computed together."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        return all(close(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == pytest.approx(wanted, abs=1e-4) if isinstance(wanted, float) else found == wanted


@pytest.mark.parametrize(
    ("name", "inputs", "options"),
    [
        ("numbers", SOURCES, {}),
        ("numbers", SOURCES, {"beam": 3, "n_best": 2, "max_length": 7}),
        ("numbers", SOURCES, {"sample": True, "temperature": 1.2, "seed": 3, "n_best": 2}),
        ("numbers", SOURCES, {"forbid": ["deux"], "beam": 2}),
        ("numbers", SOURCES, {"attention": True, "beam": 1}),
        ("numbers", [{"source": "one two"}], {}),
        ("words", SOURCES, {"beam": 1, "sample": False, "max_length": 6}),
        ("kinds", ["the red here", "the dog here"], {}),
    ],
)
def test_predictions_are_those_of_weft_predict(client, runs, name, inputs, options):
    response = client.post("/v1/predict", json={"model": name, "inputs": inputs, **options})
    assert response.status_code == 200, response.text
    wanted = [answer.record() for answer in weft.load(runs[name], device="cpu").predict(inputs, **options)]
    assert close(response.json()["predictions"], json.loads(json.dumps(wanted)))


def test_the_command_line_prints_the_same(client, runs, weft):
    response = client.post("/v1/predict", json={"model": "kinds", "inputs": ["the red here"]})
    Path("in.txt").write_text("the red here\n")
    printed = weft("predict", str(runs["kinds"]), "in.txt", "--json").out
    assert close(response.json()["predictions"], [json.loads(printed)])


def test_scores_and_vectors_are_those_of_the_run(client, runs):
    run = weft.load(runs["words"], device="cpu")
    scores = client.post("/v1/score", json={"model": "words", "inputs": SOURCES, "candidates": 2}).json()["scores"]
    wanted = [one.record() for one in run.score(SOURCES, candidates=2)]
    assert close(scores, json.loads(json.dumps(wanted)))
    pair = client.post("/v1/score", json={"model": "numbers", "inputs": [["one two", "deux un"]]})
    assert pair.json()["scores"][0]["text"] == "deux un"
    body = {"model": "words", "inputs": SOURCES}
    vectors = client.post("/v1/embed", json=body).json()["embeddings"]
    np.testing.assert_allclose(vectors, run.embed(SOURCES), atol=1e-5)
    tokens = client.post("/v1/embed", json=body | {"level": "token"}).json()["embeddings"]
    for found, own in zip(tokens, run.embed(SOURCES, level="token"), strict=True):
        assert tuple(found["tokens"]) == own.tokens
        np.testing.assert_allclose(found["vectors"], own.vectors, atol=1e-5)


def test_a_stream_is_the_text_in_pieces(client):
    body = {"model": "numbers", "input": "one two three", "beam": 2, "max_length": 9}
    options = {name: value for name, value in body.items() if name != "input"}
    whole = client.post("/v1/predict", json=options | {"inputs": [body["input"]]}).json()["predictions"][0]
    response = client.post("/v1/stream", json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [dict(line.split(": ", 1) for line in block.split("\n")) for block in response.text.strip().split("\n\n")]
    assert [event["event"] for event in events][-1] == "done"
    pieces = [json.loads(event["data"])["text"] for event in events[:-1]]
    assert "".join(pieces) == whole["text"]
    assert close(json.loads(events[-1]["data"])["prediction"], whole)


def test_many_clients_at_once_get_what_each_gets_alone(runs):
    """Requests with other settings, lengths and models side by side, in searches that they join and leave."""
    app = create_server(settings_of(runs))
    service = app.state.service

    def body(number):
        words = " ".join((["one", "two", "three", "four"] * 3)[: 1 + number % 11])
        if number % 5 == 4:
            return {"model": "kinds", "inputs": [words]}
        options = [{}, {"beam": 1}, {"sample": True, "seed": number, "top_p": 0.9}][number % 3]
        return {"model": "numbers", "inputs": [words], "max_length": 4 + number % 7, **options}

    async def ask(client, number, delay=0.0):
        await asyncio.sleep(delay)
        response = await client.post("/v1/predict", json=body(number))
        assert response.status_code == 200, response.text
        return response.json()["predictions"][0]

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            together = await asyncio.gather(*(ask(client, number, 0.003 * (number % 8)) for number in range(60)))
            alone = [await ask(client, number) for number in range(60)]
            while service.engine.groups or service.engine.waiting:
                await asyncio.sleep(0.01)
        return together, alone

    together, alone = asyncio.run(run())
    texts = [one.get("text") for one in alone]
    assert [one.get("text") for one in together] == texts
    assert len(set(texts)) > 5
    largest = [sample for metric in service.metrics.batch.collect() for sample in metric.samples]
    assert next(one.value for one in largest if one.labels.get("le") == "1.0") < largest[-2].value, "some ran together"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/stream", {"model": "numbers", "input": "one two"}),
        ("/v1/completions", {"model": "words", "prompt": "one", "stream": True}),
    ],
)
def test_a_mistake_in_weft_ends_a_stream_with_an_error(client, monkeypatch, route, body):
    def broken(*_):
        raise KeyError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(SearchGroup, "_advance", broken)
        response = client.post(route, json=body)
    assert response.status_code == 200
    assert '"server_error"' in response.text
    assert "secret" not in response.text
    assert client.post(route, json=body).text.count("server_error") == 0
