"""The description of the API as OpenAPI: the bodies of each task that is served, with examples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from weft.decoding import DecodeConfig
from weft.serve.bodies import Completion, Embed, Predict, Reload, Score, Stream
from weft.serve.inputs import input_kind
from weft.serve.served import Served
from weft.tasks.features import FEATURES
from weft.version import __version__

if TYPE_CHECKING:
    from weft.serve.service import Service

NUMBERS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "number"}}
INPUTS: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "text": ({"type": "string"}, "The small cat sleeps."),
    "words": ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "The small cat sleeps."),
    "pair": (
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        ["A cat sleeps.", "A cat rests."],
    ),
    "picture": ({"type": "string", "contentEncoding": "base64"}, "iVBORw0KGgo="),
    "table": ({"type": "array", "items": {}}, [1.0, 2.0, 3.0]),
}
"""The schema and an example of each kind of input."""

SCORED: Final[dict[str, Any]] = {
    "translate": ["The small cat sleeps.", "Le petit chat dort."],
    "caption": ["iVBORw0KGgo=", "A cat."],
}
"""An input of /v1/score by task, where it is no text."""

WORDS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}
TEXT_OPTIONS: Final[dict[str, Any]] = {
    "forbid": {**WORDS, "description": "Words and phrases that are never written."},
    "require": {**WORDS, "description": "Words and phrases that must be written."},
    "prefix": {"type": "string", "description": "The beginning of every translation."},
    "forbid_unknown": {"type": "boolean", "description": "Never write the token for unknown words."},
    "attention": {"type": "boolean", "description": "Return attention weights too."},
    "language": {"type": "string", "description": "The language to translate to, where a model has several."},
}
ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "param": {"type": "string"}},
        }
    },
}
STATUSES: Final = {
    "400": "A mistake in the request; `param` names its part",
    "401": "No API key, or a wrong one",
    "403": "A page of another site",
    "404": "No such model or route",
    "405": "The route has other methods",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "415": "The body is not application/json",
    "421": "The Host is not this server",
    "429": "The queue is full; see Retry-After",
    "503": "No turn before the deadline, or the server starts or ends; see Retry-After",
    "504": "Took longer than the deadline",
}


def describe_api(service: Service) -> dict[str, Any]:
    """Return the OpenAPI document of a server with these models."""
    models = list(service.models.served.values())
    paths: dict[str, Any] = {
        "/v1/predict": _post("Answer inputs", Predict, _by_task(models, Predict), _list("predictions")),
        "/v1/embed": _post("Vectors of texts", Embed, [_fixed(_readers_first(models), Embed)], _list("embeddings")),
        "/v1/models": {"get": _operation("The models of this server", _list("data"))},
        "/v1/reload": _post(
            "Load runs again whose folder has changed", Reload, [_fixed([], Reload)], _list("reloaded")
        ),
        "/healthz": {"get": _operation("Whether the process works", _object("status"))},
        "/readyz": {"get": _operation("Whether requests should be sent here", _object("status"))},
        "/metrics": {"get": _operation("Metrics for Prometheus", {"type": "string"}, media="text/plain")},
    }
    writers = [one for one in models if one.task.writes]
    if writers:
        events = {"type": "string", "description": "Events: piece {text}, then done {prediction} or error."}
        paths["/v1/stream"] = _post(
            "A text in pieces", Stream, _by_task(writers, Stream), events, media="text/event-stream"
        )
    scorers = [one for one in models if one.task.scores_texts and input_kind(one.run) != "table"]
    if scorers:
        paths["/v1/score"] = _post("Probabilities of texts", Score, [_fixed(scorers, Score)], _list("scores"))
    if any(one.task.continues for one in models):
        own = [_fixed([one for one in models if one.task.continues], Completion)]
        paths["/v1/completions"] = _post("Completions as OpenAI's", Completion, own, _list("choices"))
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "weft", "version": __version__, "description": "Models served by weft."},
        "paths": paths,
        "components": {"schemas": {"Error": ERROR}},
    }
    if service.settings.keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in paths:
            if path not in ("/healthz", "/readyz"):
                for operation in paths[path].values():
                    operation["security"] = [{"key": []}]
    return document


def _readers_first(models: list[Served]) -> list[Served]:
    """Models that read texts before those that read pictures or numbers, most of which have no vectors."""
    return sorted(models, key=lambda one: input_kind(one.run) in ("picture", "table"))


def _by_task(models: list[Served], kind: type[BaseModel]) -> list[dict[str, Any]]:
    """The bodies of each model: its inputs, and the options of its task."""
    return [_body_of(model, kind, named=len(models) > 1) for model in models]


def _example(model: Served) -> Any:
    """An input of this model."""
    features = model.task.codec.statistics.get(FEATURES)
    if features is not None:
        return [[0.5] * len(features.mean)] * 2
    return INPUTS[input_kind(model.run)][1]


def _scored_example(model: Served) -> Any:
    """An input of /v1/score for this model."""
    if model.task.name == "tag":
        return [[word, label] for word, label in zip(("cats", "sleep"), model.task.codec.labels, strict=False)]
    return SCORED.get(model.task.name, "The small cat sleeps.")


def _body_of(model: Served, kind: type[BaseModel], *, named: bool) -> dict[str, Any]:
    schema, example = INPUTS[input_kind(model.run)][0], _example(model)
    if input_kind(model.run) == "text" and model.task.name != "embed":
        columns = {"type": "object", "description": "The input by the columns of the training data."}
        schema = {"oneOf": [schema, columns]}
    name = "inputs" if kind is Predict else "input"
    inputs = {"type": "array", "items": schema, "maxItems": model.limits.inputs} if kind is Predict else schema
    body: dict[str, Any] = {"model": model.name} if named else {}
    return {
        "type": "object",
        "title": f"{kind.__name__}: {model.name} ({model.task.name})",
        "required": [name, *(["model"] if named else [])],
        "properties": {
            name: inputs,
            "model": {"type": "string", "enum": [model.name]},
            **_options(model),
        },
        "additionalProperties": False,
        "examples": [{**body, name: [example] if kind is Predict else example}],
    }


def _options(model: Served) -> dict[str, Any]:
    schema: dict[str, Any] = DecodeConfig.model_json_schema()["properties"]
    most = {"beam": model.limits.hypotheses, "n_best": model.limits.hypotheses, "max_length": model.limits.tokens}
    names = schema if model.task.writes else [name for name in model.task.answer_options if name in schema]
    own: dict[str, Any] = {
        name: {key: value for key, value in schema[name].items() if key not in ("default", "title")} for name in names
    }
    for name, bound in most.items():
        if name in own:
            own[name]["maximum"] = bound
    return own | (TEXT_OPTIONS if model.task.writes else {})


def _fixed(models: list[Served], kind: type[BaseModel]) -> dict[str, Any]:
    """A body that is the same for all tasks."""
    schema: dict[str, Any] = kind.model_json_schema()
    schema["title"] = kind.__name__
    definitions = schema.pop("$defs", {})
    schema = json.loads(_inline(json.dumps(schema), definitions))
    if len(models) == 1:
        schema["properties"]["model"] = {"type": "string", "enum": [models[0].name]}
    elif models:
        schema["required"] = [*schema.get("required", []), "model"]
    examples: dict[str, Any] = {
        "Score": {"inputs": [_scored_example(one) for one in models[:1]]},
        "Embed": {"inputs": [_example(one) for one in models[:1]], "level": "sentence"},
        "Completion": {"prompt": "The small", "max_tokens": 16, "temperature": 0.8, "stop": ["."]},
        "Reload": {},
    }
    name = {"model": models[0].name} if models else {}
    schema["examples"] = [{**name, **examples[kind.__name__]}]
    return schema


def _inline(text: str, definitions: dict[str, Any]) -> str:
    for name, found in definitions.items():
        text = text.replace(f'{{"$ref": "#/$defs/{name}"}}', json.dumps(found))
    return text


def _post(
    summary: str,
    kind: type[BaseModel],
    bodies: list[dict[str, Any]],
    answer: dict[str, Any],
    *,
    media: str = "application/json",
) -> dict[str, Any]:
    schema = bodies[0] if len(bodies) == 1 else {"oneOf": bodies}
    operation = _operation(summary, answer, media=media)
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": schema, "examples": _examples(bodies)}},
    }
    return {"post": operation}


def _examples(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    return {body["title"]: {"value": body["examples"][0]} for body in bodies}


def _operation(summary: str, answer: dict[str, Any], *, media: str = "application/json") -> dict[str, Any]:
    errors = {
        status: {
            "description": text,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status, text in STATUSES.items()
    }
    return {
        "summary": summary,
        "responses": {"200": {"description": "The answer", "content": {media: {"schema": answer}}}, **errors},
    }


def _list(name: str) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: {"type": "array"}}}


def _object(name: str) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: {"type": "string"}}}
