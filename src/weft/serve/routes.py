"""The routes of weft's own API: predict, score, embed, stream, models, reload."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weft.serve.answers import answer_json
from weft.serve.api_errors import RequestError, describe_in_stream
from weft.serve.bodies import Embed, Predict, Reload, Score, Stream, read_body
from weft.serve.errors import json_response
from weft.serve.events import Event, event_stream
from weft.serve.inputs import input_kind, read_records, read_scored
from weft.serve.served import Served
from weft.serve.service import Service
from weft.serve.tickets import Job, Settings, Ticket
from weft.tasks.results import Prediction

LATER: Any = None


def api_routes(service: Service) -> list[Route]:
    """Return the routes below /v1."""

    async def predict(request: Request) -> Response:
        body = await read_body(request, Predict)
        served = service.models.pick(body.model)
        note(request, served, len(body.inputs), body.inputs)
        settings, jobs = service.to_predict(served, body.inputs, body.options())
        answers: list[Prediction] = await service.compute(request, settings, jobs)
        return await answer_json({"predictions": [answer.record() for answer in answers]})

    async def stream(request: Request) -> Response:
        body = await read_body(request, Stream)
        served = service.models.pick(body.model)
        note(request, served, 1, [body.input])
        try:
            settings, jobs = service.to_predict(served, [body.input], body.options(), streams=True)
        except RequestError as error:
            if error.param is not None:
                error.param = error.param.replace("inputs[0]", "input")
            raise
        ticket = service.begin(settings, jobs, streams=True)
        return event_stream(pieces(service, settings, jobs, ticket), most_open=None)

    async def score(request: Request) -> Response:
        body = await read_body(request, Score)
        served = service.models.pick(body.model)
        note(request, served, len(body.inputs), body.inputs)
        served.score([])  # raises for a model that gives no probability to texts
        jobs = [_scored(service, served, value, number) for number, value in enumerate(_few(service, body.inputs))]
        found = await service.compute(request, Settings(served, "score", body.candidates, body.candidates), jobs)
        return await answer_json({"scores": [one.record() for one in found]})

    async def embed(request: Request) -> Response:
        body = await read_body(request, Embed)
        served = service.models.pick(body.model)
        note(request, served, len(body.inputs), body.inputs)
        records = read_records(served.run, body.inputs, service.limits)
        jobs = [Job(LATER, number, record, place=f"inputs[{number}]") for number, record in enumerate(records)]
        found = await service.compute(request, Settings(served, "embed", body.level, body.level), jobs)
        return await answer_json({"embeddings": [_vectors(one) for one in found]})

    async def models(request: Request) -> Response:
        return json_response(
            {"object": "list", "data": [describe_model(one) for one in service.models.served.values()]}
        )

    async def model(request: Request) -> Response:
        return json_response(describe_model(service.models.pick(request.path_params["name"])))

    async def reload(request: Request) -> Response:
        body = await read_body(request, Reload)
        if body.model is not None:
            service.models.pick(body.model)
        found = await service.models.refresh(again=True, only=body.model)
        if not found.failed:
            return json_response({"reloaded": found.reloaded})
        said = "; ".join(
            f'"{name}" cannot be loaded, and its old model stays: {why}' for name, why in found.failed.items()
        )
        error = {"message": said, "type": "server_error", "param": "model"}
        return json_response({"error": error, "reloaded": found.reloaded, "failed": found.failed}, 500)

    return [
        Route("/v1/predict", predict, methods=["POST"]),
        Route("/v1/stream", stream, methods=["POST"]),
        Route("/v1/score", score, methods=["POST"]),
        Route("/v1/embed", embed, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name}", model),
        Route("/v1/reload", reload, methods=["POST"]),
    ]


def note(request: Request, served: Served, inputs: int, texts: Any) -> None:
    """Keep what the log says of a request."""
    request.state.fields = {"model": served.name, "inputs": inputs}
    request.state.texts = texts


def describe_model(served: Served) -> dict[str, Any]:
    """Return a model as OpenAI lists it, with its task and what it reads."""
    return {
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "weft",
        "task": served.task.name,
        "reads": input_kind(served.run),
        "writes": served.task.writes,
    }


async def pieces(service: Service, settings: Settings, jobs: list[Job], ticket: Ticket) -> AsyncIterator[Event]:
    """Yield `piece` events, then `done` with the whole prediction; an error is an event, because the response has
    begun."""
    try:
        async for _, text in service.stream(settings, jobs, ticket):
            yield Event("piece", {"text": text})
        (answer,) = ticket.results
        yield Event("done", {"prediction": answer.record()})
    except Exception as error:  # of a mistake in weft it may be any, and the response has begun
        yield Event("error", describe_in_stream(error)["error"])


def _few(service: Service, inputs: list[Any]) -> list[Any]:
    if len(inputs) > service.limits.inputs:
        what = f"{len(inputs):,} inputs, and {service.limits.inputs:,} is the limit"
        raise RequestError(what, param="inputs", cure="send them in several requests")
    return inputs


def _scored(service: Service, served: Served, value: Any, number: int) -> Job:
    place = f"inputs[{number}]"
    return Job(LATER, number, read_scored(served.run, value, place, service.limits), place=place)


def _vectors(found: Any) -> Any:
    if hasattr(found, "tokens"):
        return {"tokens": list(found.tokens), "vectors": found.vectors.tolist()}
    return found.tolist()
