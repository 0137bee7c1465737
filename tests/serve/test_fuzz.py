"""Requests that schemathesis makes of the OpenAPI document, right and wrong ones: none is answered by 5xx, answers have
their schema, and good requests are served after all of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = 25
OPERATIONS = 10
"""Operations of the document."""

CALM = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


def test_the_document_describes_every_task_with_examples_that_work(client, document):
    bodies = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    named = {one["title"]: one for one in bodies["schema"]["oneOf"]}
    assert set(named) == {"Predict: numbers (translate)", "Predict: words (lm)", "Predict: kinds (classify)"}
    assert "beam" in named["Predict: numbers (translate)"]["properties"]
    assert "beam" not in named["Predict: kinds (classify)"]["properties"]
    for path, operations in document["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in content.get("examples", {}).values():
            response = client.post(path, json=example["value"])
            bag = path == "/v1/embed" and response.status_code == 400  # a bag of words has no vectors of texts
            assert response.status_code == 200 or bag, (path, example, response.text)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("number", range(OPERATIONS))
def test_no_request_makes_the_server_fail(client, document, number, mode):
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    assert len(operations) == OPERATIONS
    operation = operations[number]
    if mode == "negative" and operation.method == "get":
        pytest.skip("takes nothing that could be wrong")

    @CALM
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def send(case):
        content = None
        if operation.method == "post":
            body = case.body
            content = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8", "surrogatepass")
        headers = {"content-type": "application/json"} if operation.method == "post" else {}
        response = client.request(operation.method.upper(), operation.path, content=content, headers=headers)
        assert response.status_code < 500, response.text
        assert str(response.status_code) in document["paths"][operation.path][operation.method]["responses"]
        if response.status_code >= 400:
            assert set(response.json()["error"]) <= {"message", "type", "param"}

    send()
    assert client.post("/v1/predict", json={"model": "kinds", "inputs": ["the red here"]}).status_code == 200
