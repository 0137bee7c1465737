"""The state that all requests share: models, the engine, keys, limits and metrics; and how a request is computed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request

from weft.decoding import DecodeConfig
from weft.documents import to_json
from weft.errors import ConfigError, did_you_mean
from weft.evaluate import BATCH_TOKENS, GPU_BATCH_TOKENS
from weft.serve.api_errors import Busy, RequestError
from weft.serve.engine import Engine
from weft.serve.inputs import check_words, read_records
from weft.serve.metrics import Metrics
from weft.serve.models import Models
from weft.serve.served import Served
from weft.serve.settings import ServerSettings
from weft.serve.tickets import Job, NoAnswer, Piece, Settings, Ticket
from weft.tasks.generation import key_of
from weft.tasks.wording import read_wordings
from weft.training import choose_device

WORDING: tuple[str, ...] = ("forbid", "require", "prefix", "forbid_unknown")
"""Options of `predict` for texts that are no settings of a search."""


class Service:
    """A server without its routes."""

    def __init__(self, settings: ServerSettings, *, cells: Mapping[str, Any] | None = None) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = Metrics()
        self.on_gpu = choose_device(settings.device, where="--device").type == "cuda"
        tokens = settings.batch_tokens or (GPU_BATCH_TOKENS if self.on_gpu else BATCH_TOKENS)
        self.engine = Engine(
            self.metrics,
            max_queue=settings.max_queue,
            batch_tokens=tokens,
            threads=settings.threads,
            beside=len(settings.runs) > 1 and not self.on_gpu,
        )
        self.models = Models(settings, self.metrics, cells or {})
        self.draining = False
        self.requests = 0
        """Accepted requests that are not answered yet."""
        self.watching: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Load all models, while requests are told that the server starts; raise where a run cannot be loaded."""
        await asyncio.to_thread(self.models.load, lambda: self.draining)

    def start(self) -> None:
        """Begin to compute, and to watch the folders of the runs; called inside the event loop."""
        self.engine.start()
        self.watching = asyncio.get_running_loop().create_task(self.models.watch())

    def end(self) -> None:
        """End the engine, after the last request."""
        if self.watching is not None:
            self.watching.cancel()
        self.engine.close()

    @property
    def ready(self) -> bool:
        """Whether requests should be sent here."""
        return not self.draining and self.engine.alive and bool(self.models.served)

    def check_ready(self) -> None:
        """Raise 503 while requests must be sent elsewhere, or later."""
        if self.draining:
            raise Busy(503, "the server is ending", after=1)
        if not self.models.served:
            raise Busy(503, "the models are being loaded", after=1)

    # Jobs

    def to_predict(
        self, served: Served, inputs: Sequence[Any], options: Mapping[str, Any], *, streams: bool = False
    ) -> tuple[Settings, list[Job]]:
        """Return the jobs of a request to predict, and what they must share with others to run together."""
        records, options = read_records(served.run, inputs, self.limits, skip_blank=True), dict(options)
        check_words(options, self.limits)
        language = options.pop("language", None)
        if language is not None:
            records = [record and served.task.with_language(record, language) for record in records]
        words = {name: options.pop(name) for name in WORDING if name in options}
        attention = options.pop("attention", False)
        if not isinstance(attention, bool) or not isinstance(words.get("forbid_unknown", False), bool):
            raise ConfigError("is neither true nor false", where="attention or forbid_unknown", cure="send true")
        self._check_names(served, options)
        decode = served.decode(options)
        if not served.task.writes:
            if words or attention or streams:
                what = f"a model of {served.task.name} writes no text"
                if streams:
                    kind = f"is a model of {served.task.name}, which writes no text"
                    raise RequestError(f'"{served.name}" {kind}', param="model", cure="use POST /v1/predict")
                raise RequestError(
                    what, param=next(iter(words), None) or "attention" * attention or None, cure="leave it out"
                )
            settings = Settings(served, "predict", to_json(options), options)
            return settings, [
                Job(_LATER, number, record, place=f"inputs[{number}]") for number, record in enumerate(records)
            ]
        if streams and decode.sample and decode.n_best > 1:
            raise RequestError("several drawn texts cannot be sent together", param="n_best", cure="n_best = 1")
        wordings = read_wordings(len(records), **({"forbid": (), "require": ()} | words)) if words else None
        jobs = [
            Job(
                _LATER,
                number,
                record,
                key=None if record is None else key_of(record),
                seed=decode.seed,
                max_length=decode.max_length,
                wording=wordings[number] if wordings else None,
                place=f"inputs[{number}]",
            )
            for number, record in enumerate(records)
        ]
        return search_settings(
            served, decode, attention=attention, limit=self.limits.tokens, wording=wordings[0] if wordings else None
        ), jobs

    def _check_names(self, served: Served, options: Mapping[str, Any]) -> None:
        known = list(DecodeConfig.model_fields) if served.task.writes else list(served.task.answer_options)
        for name in options:
            if name not in known:
                others = [*known, "language", "attention", *WORDING] if served.task.writes else known
                cure = did_you_mean(name[:60], others) if others else "leave it out"
                raise RequestError("is no option of this model", param=name[:60], cure=cure)

    # Computing

    def begin(self, settings: Settings, jobs: Sequence[Job], *, streams: bool = False) -> Ticket:
        """Queue the jobs of a request."""
        ticket = Ticket(len(jobs), self.engine.outbox, limits=self.limits, streams=streams)
        for job in jobs:
            job.ticket = ticket
        for job in jobs:
            if job.record is None:
                job.resolve(NoAnswer())
        self.engine.outbox.deliver()
        try:
            self.engine.submit(settings, [job for job in jobs if job.record is not None])
        except Busy:
            self.metrics.rejected.labels("queue").inc()
            raise
        return ticket

    async def compute(self, request: Request, settings: Settings, jobs: Sequence[Job]) -> list[Any]:
        """Return the results of jobs; they are given up when the client goes, or when time is over."""
        if not jobs:
            return []
        ticket = self.begin(settings, jobs)
        leaving = asyncio.ensure_future(_left(request))
        try:
            left = ticket.deadline - time.monotonic()
            await asyncio.wait((leaving, ticket.done), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if ticket.done.done():
                return ticket.done.result()
            if leaving.done():
                self.metrics.rejected.labels("disconnect").inc()
                raise RequestError("the client has gone", status=499)
            raise ticket.late()
        except (Busy, RequestError) as error:
            self._count_late(error)
            raise
        finally:
            ticket.cancel()
            leaving.cancel()

    async def stream(self, settings: Settings, jobs: Sequence[Job], ticket: Ticket) -> AsyncIterator[Piece]:
        """Yield the pieces of text of jobs."""
        try:
            async for piece in ticket.follow():
                yield piece
        except (GeneratorExit, asyncio.CancelledError):
            self.metrics.rejected.labels("disconnect").inc()
            raise
        except (Busy, RequestError) as error:
            self._count_late(error)
            raise
        finally:
            ticket.cancel()

    def _count_late(self, error: Busy | RequestError) -> None:
        """Count a request that was given up because its time was over."""
        if error.status in (503, 504):
            self.metrics.rejected.labels("deadline").inc()


def search_settings(
    served: Served, decode: DecodeConfig, *, attention: bool, limit: int, wording: Any = None
) -> Settings:
    """Return what texts must share to be searched for together: all but seed and length, which are each one's own."""
    shared = decode.model_copy(update={"seed": 0, "max_length": limit})
    constrained = wording is not None and wording.constrains
    required = constrained and bool(wording.require)
    key = (shared.model_dump_json(), attention, constrained, required, bool(wording and wording.prefix))
    return Settings(served, "write", key, (shared, attention))


async def _left(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        continue


_LATER: Any = None
"""The ticket of a job before it is queued."""
