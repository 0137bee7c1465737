"""OpenAI's completions for language models: the same bodies, answers, errors and streams."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weft.documents import to_json
from weft.serve.answers import answer_json
from weft.serve.api_errors import RequestError, describe_in_stream
from weft.serve.bodies import Completion, read_body
from weft.serve.events import Line, event_stream
from weft.serve.inputs import check_size
from weft.serve.logprobs import TextScores, TokenTexts, show_logprobs, tokens_of_text
from weft.serve.routes import note
from weft.serve.served import Served
from weft.serve.service import Service, search_settings
from weft.serve.tickets import Job, Settings
from weft.tasks.generation import Candidate, Generation, key_of

REFUSED: Final[dict[str, Callable[[Any], bool]]] = {
    "best_of": lambda value: bool(value > 1),
    "suffix": bool,
    "logit_bias": bool,
}
"""Fields whose other values would change the answer in a way that this server does not know."""


@dataclass(frozen=True)
class Choices:
    """The texts that a request asks for: `count` of each prompt, prompts in order."""

    served: Served
    body: Completion
    prompts: list[str]
    prompt_tokens: list[list[int]]
    id: str
    created: int

    @property
    def count(self) -> int:
        return self.body.n or 1

    @property
    def writes(self) -> bool:
        """Whether anything is written: with max_tokens = 0 and echo, the prompt alone is scored."""
        return self.body.max_tokens != 0

    def prompt_of(self, choice: int) -> int:
        return choice // self.count

    def reply(self, choices: Sequence[Any], **more: Any) -> dict[str, Any]:
        """The form of an answer, and of each event of a stream."""
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.served.name}
        return {**head, "choices": list(choices), **more}

    def usage(self, written: Sequence[int]) -> dict[str, int]:
        """The tokens of a request; each prompt is read once."""
        read = sum(map(len, self.prompt_tokens))
        return {"prompt_tokens": read, "completion_tokens": sum(written), "total_tokens": read + sum(written)}

    def completion(self, choice: int, candidate: Candidate | None) -> str:
        """The text that follows the prompt; with echo, both."""
        return (self.prompts[self.prompt_of(choice)] if self.body.echo else "") + self.added(choice, candidate)

    def added(self, choice: int, candidate: Candidate | None) -> str:
        """The text that follows the prompt."""
        prompt = self.prompts[self.prompt_of(choice)]
        text = "" if candidate is None else candidate.text
        shown = prompt if text.startswith(prompt) else prompt.rstrip()
        return text[len(shown) :]


def completion_routes(service: Service) -> list[Route]:
    """Return the route of completions."""

    async def completions(request: Request) -> Response:
        body = await read_body(request, Completion)
        choices = read_choices(service, body)
        note(request, choices.served, len(choices.prompts), choices.prompts)
        candidates: list[Candidate | None] = [None] * (len(choices.prompts) * choices.count)
        if choices.writes:
            settings, jobs = to_jobs(service, choices)
            if body.stream and body.logprobs is None:
                ticket = service.begin(settings, jobs, streams=True)
                return event_stream(lines(service, choices, settings, jobs, ticket), most_open=None)
            found: list[Generation] = await service.compute(request, settings, jobs)
            candidates = [one.candidates[0] if one.candidates else None for one in found]
        whole = await answer(service, request, choices, candidates)
        return event_stream(whole_lines(choices, whole), most_open=None) if body.stream else await answer_json(whole)

    return [Route("/v1/completions", completions, methods=["POST"])]


def read_choices(service: Service, body: Completion) -> Choices:
    """Check a request, and cut its prompts into tokens."""
    served = service.models.pick(body.model)
    if not served.task.continues:
        raise RequestError(f"is a model of {served.task.name}", param="model", cure="use POST /v1/predict")
    for name, refuses in REFUSED.items():
        value = getattr(body, name)
        if value is not None and refuses(value):
            raise RequestError("is not supported", param=name, cure="leave it out")
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    limits, count = service.limits, body.n or 1
    if not prompts:
        raise RequestError("has no text", param="prompt", cure='send a text, or ["…"]')
    if len(prompts) * count > limits.inputs:
        what = f"{len(prompts) * count:,} texts, and {limits.inputs:,} is the limit"
        raise RequestError(what, param="prompt", cure="send them in several requests")
    bounds = {"n": (count, limits.hypotheses), "max_tokens": (body.max_tokens or 0, limits.tokens)}
    for name, (value, most) in bounds.items():
        if value > most:
            raise RequestError(f"{value} is more than this server allows", param=name, cure=f"at most {most}")
    for number, prompt in enumerate(prompts):
        check_size(prompt, f"prompt[{number}]", limits)
    if body.max_tokens == 0 and not body.echo:
        raise RequestError("0 writes nothing", param="max_tokens", cure="at least 1, or echo = true")
    tokens = served.task.tokenizer.encode_many(prompts)  # type: ignore[attr-defined]
    return Choices(served, body, prompts, tokens, f"cmpl-{secrets.token_hex(12)}", int(time.time()))


def to_jobs(service: Service, choices: Choices) -> tuple[Settings, list[Job]]:
    """Return a job for each text."""
    body, served = choices.body, choices.served
    length = body.max_tokens if body.max_tokens is not None else 16
    options: dict[str, Any] = {"max_length": length, "min_length": 0, "n_best": 1}
    temperature = 1.0 if body.temperature is None else float(body.temperature)
    if temperature == 0:
        options |= {"beam": 1, "sample": False}
    else:
        top_p = 1.0 if body.top_p is None else float(body.top_p)
        options |= {"sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0, "min_p": 0.0}
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    options["stop_at"] = [one for one in stop if one]
    options["frequency_penalty"] = float(body.frequency_penalty or 0)
    options["presence_penalty"] = float(body.presence_penalty or 0)
    decode = served.decode(options)
    seed = secrets.randbits(32) if body.seed is None else body.seed
    jobs = []
    for number in range(len(choices.prompts) * choices.count):
        prompt = choices.prompt_of(number)
        record = served.task.record(choices.prompts[prompt])
        # Equal prompts, and the texts of one prompt, are drawn apart.
        key = (key_of(record) + number) % 2**63
        jobs.append(Job(None, number, record, key=key, seed=seed, max_length=length, place=f"prompt[{prompt}]"))  # type: ignore[arg-type]
    return search_settings(served, decode, attention=False, limit=service.limits.tokens), jobs


def tokens_of(choices: Choices, candidate: Candidate | None) -> list[int]:
    """The tokens that a text adds, those of a stop string included, and not its end."""
    tokenizer = choices.served.task.tokenizer  # type: ignore[attr-defined]
    return [] if candidate is None else [tokenizer.id(token) for token in candidate.tokens]


def reason(candidate: Candidate | None) -> str:
    """Why a text ended."""
    return "stop" if candidate is None or candidate.finished or candidate.stopped is not None else "length"


async def answer(
    service: Service, request: Request, choices: Choices, candidates: Sequence[Candidate | None]
) -> dict[str, Any]:
    """Return the whole answer, with the probabilities of tokens where they are asked for."""
    body, scores = choices.body, [None] * len(candidates)
    written = [tokens_of(choices, candidate) for candidate in candidates]
    if body.logprobs is not None:
        jobs = []
        for number, tokens in enumerate(written):
            prompt = choices.prompt_of(number)
            read, candidate = choices.prompt_tokens[prompt], candidates[number]
            if candidate is not None and candidate.stopped is not None:
                tokens = tokens_of_text(choices.served, read, tokens, choices.added(number, candidate))
            texts = TokenTexts((*read, *tokens), 0 if body.echo else len(read))
            jobs.append(Job(None, number, texts, place=f"prompt[{prompt}]"))  # type: ignore[arg-type]
        settings = Settings(choices.served, "logprobs", body.logprobs, TextScores(body.logprobs))
        scores = await service.compute(request, settings, jobs)
    found = []
    for number, (candidate, score) in enumerate(zip(candidates, scores, strict=True)):
        text = choices.completion(number, candidate)
        why = "length" if not choices.writes else reason(candidate)
        shown = None if score is None else show_logprobs(score, text)
        found.append({"text": text, "index": number, "logprobs": shown, "finish_reason": why})
    return choices.reply(found, usage=choices.usage([len(tokens) for tokens in written]))


async def lines(
    service: Service, choices: Choices, settings: Settings, jobs: list[Job], ticket: Any
) -> AsyncIterator[Line]:
    """Yield the events of a stream as OpenAI's clients read them, the last one [DONE]."""
    body, skip = choices.body, {}

    def event(number: int, text: str, why: str | None = None) -> Line:
        choice = {"text": text, "index": number, "logprobs": None, "finish_reason": why}
        return Line(to_json(choices.reply([choice])))

    for number in range(len(jobs)):
        prompt = choices.prompts[choices.prompt_of(number)]
        skip[number] = len(prompt)
        if body.echo:
            yield event(number, prompt)
    try:
        async for number, text in service.stream(settings, jobs, ticket):
            # The pieces begin with the prompt, as it is shown.
            cut = min(skip[number], len(text))
            skip[number] -= cut
            if text[cut:]:
                yield event(number, text[cut:])
        found = [one.candidates[0] if one.candidates else None for one in ticket.results]
        for number, candidate in enumerate(found):
            yield event(number, "", reason(candidate))
        if body.stream_options is not None and body.stream_options.include_usage:
            written = [len(tokens_of(choices, candidate)) for candidate in found]
            yield Line(to_json(choices.reply([], usage=choices.usage(written))))
    except Exception as error:  # of a mistake in weft it may be any, and the response has begun
        yield Line(to_json(describe_in_stream(error)))
    yield Line("[DONE]")


async def whole_lines(choices: Choices, whole: dict[str, Any]) -> AsyncIterator[Line]:
    """Yield a whole answer as the events of a stream, one for each text: probabilities of tokens are computed when a
    text has ended."""
    for choice in whole["choices"]:
        yield Line(to_json(choices.reply([choice])))
    options = choices.body.stream_options
    if options is not None and options.include_usage:
        yield Line(to_json(choices.reply([], usage=whole["usage"])))
    yield Line("[DONE]")
