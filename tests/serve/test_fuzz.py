"""Requests that schemathesis makes of the OpenAPI document, right and wrong ones: none is answered by 5xx, answers have
their schema, and good requests are served after all of them."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("WEFT_SCHEMA_EXAMPLES", "25"))
OPERATIONS = 10
"""Operations of the document."""

CALM = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def document(client_of_all):
    return client_of_all.get("/openapi.json").json()


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("number", range(OPERATIONS))
def test_no_request_makes_the_server_fail(client_of_all, document, number, mode):
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
        response = client_of_all.request(operation.method.upper(), operation.path, content=content, headers=headers)
        assert response.status_code < 500, response.text
        assert str(response.status_code) in document["paths"][operation.path][operation.method]["responses"]
        if response.status_code >= 400:
            assert set(response.json()["error"]) <= {"message", "type", "param"}

    send()
    assert client_of_all.post("/v1/predict", json={"model": "kinds", "inputs": ["the red here"]}).status_code == 200
