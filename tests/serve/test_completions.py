"""OpenAI's completions: counts, reasons, probabilities, streams, and errors in its form."""

from __future__ import annotations

import json
import math

import pytest

import weft

BODY = {"model": "words", "prompt": "one two", "max_tokens": 5, "temperature": 0}


def ask(client, **changes):
    response = client.post("/v1/completions", json=BODY | changes)
    assert response.status_code == 200, response.text
    return response.json()


def test_greedy_text_is_that_of_the_run(client, runs):
    found = ask(client)
    (choice,) = found["choices"]
    run = weft.load(runs["words"], device="cpu")
    wanted = run.predict("one two", beam=1, sample=False, max_length=5)
    assert "one two" + choice["text"] == wanted.text
    assert found["object"] == "text_completion"
    assert found["usage"]["prompt_tokens"] == len(run.task.tokenizer.encode("one two"))
    assert found["usage"]["completion_tokens"] == len(wanted.candidates[0].tokens)
    assert choice["finish_reason"] == ("stop" if wanted.candidates[0].finished else "length")


def test_several_prompts_and_texts_of_each(client):
    found = ask(client, prompt=["one", "one", "two"], n=2, temperature=1.5, seed=1)["choices"]
    assert [choice["index"] for choice in found] == list(range(6))
    assert len({choice["text"] for choice in found[:4]}) > 1, "equal prompts are drawn apart"
    again = ask(client, prompt=["one", "one", "two"], n=2, temperature=1.5, seed=1)["choices"]
    assert [one["text"] for one in found] == [one["text"] for one in again]


def test_stop_strings_end_a_text_before_them(client):
    whole = ask(client, max_tokens=30)["choices"][0]["text"]
    part = whole.strip()[2:4]
    found = ask(client, max_tokens=30, stop=[part])["choices"][0]
    assert found["text"] == whole.partition(part)[0]
    assert found["finish_reason"] == "stop"


def test_probabilities_of_tokens_and_the_likeliest_at_their_places(client, runs):
    choice = ask(client, logprobs=3)["choices"][0]
    found = choice["logprobs"]
    candidate = (
        weft.load(runs["words"], device="cpu").predict("one two", beam=1, sample=False, max_length=5).candidates[0]
    )
    size = len(candidate.tokens)
    assert found["token_logprobs"] == pytest.approx(candidate.log_probabilities[:size], abs=1e-4)
    assert "".join(found["tokens"]) == choice["text"]
    assert [
        choice["text"][at:].startswith(token) for at, token in zip(found["text_offset"], found["tokens"], strict=True)
    ]
    for log, others in zip(found["token_logprobs"], found["top_logprobs"], strict=True):
        assert len(others) in (3, 4)
        assert max(others.values()) == pytest.approx(log, abs=1e-4), "greedy takes the likeliest"


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_probabilities_end_where_a_stop_string_ends_the_text(client, echo, stream):
    options = {"max_tokens": 30, "logprobs": 2, "echo": echo}
    whole = ask(client, **options)["choices"][0]
    before = len(BODY["prompt"]) if echo else 0
    stop = whole["text"][before:].split()[2]
    response = client.post("/v1/completions", json=BODY | options | {"stop": [stop], "stream": stream})
    text = response.text.removeprefix("data: ").partition("\n")[0] if stream else response.text
    (choice,) = json.loads(text)["choices"]
    assert choice["text"] == whole["text"][:before] + whole["text"][before:].partition(stop)[0]
    found, every = choice["logprobs"], whole["logprobs"]
    count = len(found["tokens"])
    assert 0 < count < len(every["tokens"])
    assert all(at < len(choice["text"]) for at in found["text_offset"])
    assert sum(at < len(choice["text"]) for at in every["text_offset"]) == count, "all tokens of the text are there"
    assert found["text_offset"] == every["text_offset"][:count]
    assert found["tokens"] == every["tokens"][:count]
    assert len(found["top_logprobs"]) == count
    assert found["token_logprobs"] == pytest.approx(every["token_logprobs"][:count], abs=1e-4)


def test_a_text_that_stops_at_once_has_no_probabilities(client):
    first = ask(client, max_tokens=30)["choices"][0]["text"].strip()[:2]
    choice = ask(client, max_tokens=30, stop=[first], logprobs=1)["choices"][0]
    assert choice["text"].strip() == ""
    assert len(choice["logprobs"]["tokens"]) == len(choice["logprobs"]["text_offset"]) <= 1


def test_the_prompt_alone_is_scored(client, runs):
    choice = ask(client, prompt="one two three", max_tokens=0, echo=True, logprobs=1)["choices"][0]
    assert choice["text"] == "one two three"
    wanted = weft.load(runs["words"], device="cpu").score(["one two three"])[0]
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(wanted.log_probabilities[:-1], abs=1e-4)
    assert all(log <= 0 and math.isfinite(log) for log in choice["logprobs"]["token_logprobs"])


def test_a_stream_is_the_same_text_in_events(client):
    whole = ask(client, prompt=["one two", "three"], echo=True)
    body = BODY | {
        "prompt": ["one two", "three"],
        "stream": True,
        "echo": True,
        "stream_options": {"include_usage": True},
    }
    response = client.post("/v1/completions", json=body)
    lines = [line.removeprefix("data: ") for line in response.text.split("\n") if line]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    texts = {0: "", 1: ""}
    for event in events:
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == {choice["index"]: choice["text"] for choice in whole["choices"]}
    assert events[-1]["usage"] == whole["usage"]
    reasons = [choice["finish_reason"] for event in events for choice in event["choices"] if choice["finish_reason"]]
    assert reasons == [choice["finish_reason"] for choice in whole["choices"]]


@pytest.mark.parametrize("changes", [{"logprobs": 1, "n": 2}, {"max_tokens": 0, "echo": True}])
def test_a_stream_with_probabilities_has_each_text_as_an_event(client, changes):
    whole = ask(client, **changes)
    response = client.post("/v1/completions", json=BODY | changes | {"stream": True})
    lines = [line.removeprefix("data: ") for line in response.text.split("\n") if line]
    assert lines.pop() == "[DONE]"
    assert [choice for line in lines for choice in json.loads(line)["choices"]] == whole["choices"]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": "numbers"}, "model"),
        ({"model": "gpt-4"}, "model"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"max_tokens": 65}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 9}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "."}, "suffix"),
        ({"logprobs": 9}, "logprobs"),
        ({"stop": ["x"] * 40}, "stop_at"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_not_possible_is_an_error_in_openais_form(client, changes, param):
    response = client.post("/v1/completions", json=BODY | changes)
    assert response.status_code in (400, 404)
    error = response.json()["error"]
    assert error["param"].startswith(param)
    assert error["type"] in ("invalid_request_error", "not_found_error")
