"""The OpenAPI document of a server with a model of every task."""

from __future__ import annotations

from weft.catalog import TASKS


def test_the_document_describes_every_task_with_examples_that_work(client_of_all):
    document = client_of_all.get("/openapi.json").json()
    bodies = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]["application/json"]
    named = {one["title"]: one for one in bodies["schema"]["oneOf"]}
    assert {"Predict: numbers (translate)", "Predict: words (lm)", "Predict: kinds (classify)"} < set(named)
    assert {title.partition("(")[2][:-1] for title in named} == set(TASKS)
    assert "beam" in named["Predict: numbers (translate)"]["properties"]
    assert "beam" not in named["Predict: kinds (classify)"]["properties"]
    for path, operations in document["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in content.get("examples", {}).values():
            response = client_of_all.post(path, json=example["value"])
            assert response.status_code == 200, (path, example, response.text)
