"""The size of an answer is bounded, and others are answered while a large one is written."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from tests.serve.conftest import ADDRESS, settings_of

from weft.documents import to_json
from weft.run.vectors import Embedded
from weft.serve import answers
from weft.serve.answers import answer_json, count_values, json_parts
from weft.serve.server import create_server
from weft.tasks.generation import Candidate

VALUES = [
    [],
    {},
    "one",
    None,
    list(range(95)),
    [[1.5, float("nan")] * 30, {"é": [list(range(40)), "x"] * 9, "b": None}, [], "y", [[[[7] * 70]]]],
    {"predictions": [{"text": "a" * n, "others": [n] * n} for n in range(20)]},
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_parts_are_together_the_json_of_the_whole(monkeypatch, value):
    monkeypatch.setattr(answers, "PART_VALUES", 10)
    parts = list(json_parts(value))
    assert json.loads("".join(parts)) == json.loads(to_json(value))
    assert "".join(parts) == to_json(value)
    assert all(part.count(",") < 40 for part in parts)


def test_all_that_is_written_of_a_result_is_counted():
    assert count_values({"a": [1, "x", (2.5, None)], "b": torch.zeros(3, 4), "c": np.zeros(5)}) == 4 + 12 + 5
    assert count_values(Embedded(("a", "b"), np.zeros((2, 8), np.float32))) == 2 + 16
    assert (
        count_values(Candidate("one two", -1.0, ("one", "two"), (-0.5, -0.5), True, attention=torch.zeros(3, 9))) > 27
    )


def test_the_event_loop_goes_on_while_a_large_answer_is_written():
    async def run():
        turns, large = 0, asyncio.ensure_future(answer_json([[0.25] * 1000] * 1000))
        while not large.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, (await large).body

    turns, body = asyncio.run(run())
    assert turns > 1000 * 1000 // answers.PART_VALUES // 2
    assert json.loads(body) == [[0.25] * 1000] * 1000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embed", {"model": "words", "inputs": ["one two three"] * 9, "level": "token"}),
        ("/v1/score", {"model": "words", "inputs": ["one two three"] * 9, "candidates": 20}),
        (
            "/v1/predict",
            {"model": "numbers", "inputs": ["one two three"] * 9, "beam": 4, "n_best": 4, "attention": True},
        ),
        ("/v1/completions", {"model": "words", "prompt": "one two", "logprobs": 5, "n": 8, "max_tokens": 40}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_too_large_is_a_mistake_of_the_request(runs, path, body):
    settings = settings_of(runs, "numbers", "words")
    small = replace(settings, limits=replace(settings.limits, values=200))
    with TestClient(create_server(small), base_url=ADDRESS) as client:
        refused = client.post(path, json=body)
        assert refused.status_code == 400
        assert "the answer has more than 200 numbers and texts (send fewer" in refused.json()["error"]["message"]
        assert client.post("/v1/score", json={"model": "words", "inputs": ["one two"]}).status_code == 200
    with TestClient(create_server(settings), base_url=ADDRESS) as client:
        assert client.post(path, json=body).status_code == 200
