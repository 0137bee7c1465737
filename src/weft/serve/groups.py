"""Inputs that are computed together: a group for each model and its settings, run by the engine's one thread.

A group has a queue. `turn` does a small piece of its work, so that the groups of several models take turns.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from weft.decoding.open_search import OpenSearch, most_together
from weft.decoding.request import prepare
from weft.errors import DataError, WeftError
from weft.evaluate import predict
from weft.models.stepper import can_prefill
from weft.serve.api_errors import RequestError
from weft.serve.served import Served
from weft.serve.tickets import Job, Settings
from weft.tasks import encode
from weft.tasks.generation import Asked, Generation, ask
from weft.tasks.streaming import TextStream

ROUND_STEPS: Final = 8
"""Steps of a search before it is looked who has come or gone: a millisecond or two on a small model."""

TOGETHER_SHARE: Final = 1 / 2
READS_WAITED: Final = 4
"""Sentences join a search when they are this share of those that run, or when none has joined for as long as so many
reads take: then at most a fifth of the time goes into reading."""

MAX_BATCH_INPUTS: Final = 512


class Group(ABC):
    """The queue of some settings, and what runs of it."""

    def __init__(self, settings: Settings, *, batch_tokens: int, on_batch: Callable[[int], None]) -> None:
        self.settings, self.batch_tokens, self.on_batch = settings, batch_tokens, on_batch
        self.served: Served = settings.model
        self.queue: deque[Job] = deque()

    @property
    @abstractmethod
    def running(self) -> int:
        """The number of inputs that are being computed."""

    @abstractmethod
    def turn(self) -> int:
        """Do a piece of the work -> the number of inputs that were computed together."""

    def largest(self) -> int:
        """Return the size of the longest input that runs, or that the next turn may take."""
        first = islice(self.queue, MAX_BATCH_INPUTS)
        return max((job.record.size for job in chain(self.computing(), first)), default=0)

    def computing(self) -> Iterable[Job]:
        """Return the inputs that are being computed."""
        return ()

    def forget(self) -> None:
        """Drop the inputs whose client has gone."""
        if any(not job.ticket.wanted for job in self.queue):
            self.queue = deque(job for job in self.queue if job.ticket.wanted)

    def take(self, most: int, tokens: int) -> tuple[list[Job], Any]:
        """Take the first inputs of the queue, at most `most`, and of at most so many tokens, but at least one
        -> them, and their examples. The request of an input that cannot be encoded ends with its error."""
        jobs = [self.queue.popleft() for _ in range(min(most, len(self.queue)))]
        try:
            examples = self.encode(jobs)
        except Exception:
            jobs = [job for job in jobs if self._encodes(job)]
            examples = self.encode(jobs) if jobs else None
        costs = accumulate(int(np.max(length)) for length in (examples.lengths if jobs else ()))
        fitting = max(1, sum(cost <= tokens for cost in costs))
        if fitting < len(jobs):
            self.queue.extendleft(reversed(jobs[fitting:]))
            jobs = jobs[:fitting]
            examples = self.encode(jobs)
        for job in jobs:
            job.ticket.started = True
        return jobs, examples

    def encode(self, jobs: Sequence[Job]) -> Any:
        """The inputs as examples."""
        task = self.served.task
        return encode(task, task.to_predict([job.record for job in jobs]))

    def _encodes(self, job: Job) -> bool:
        try:
            self.encode([job])
        except Exception as error:
            job.fail(placed(error, job.place))
            return False
        return True

    def each_alone(self, jobs: Sequence[Job], run: Callable[[Sequence[Job]], None]) -> None:
        """Run some jobs together; where that fails each by itself, so that one wrong input ends only its request."""
        try:
            run(jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].fail(placed(error, jobs[0].place))
                return
            for job in jobs:
                self.each_alone([job], run)


class BatchGroup(Group):
    """Inputs of a model that answers in one pass: a batch for each turn."""

    running = 0

    def turn(self) -> int:
        self.forget()
        if not self.queue:
            return 0
        jobs, examples = self.take(min(MAX_BATCH_INPUTS, self.batch_tokens), self.batch_tokens)
        if jobs:
            self.on_batch(len(jobs))
            self.each_alone(jobs, lambda some: self._compute(some, examples if len(some) == len(jobs) else None))
        return len(jobs)

    def encode(self, jobs: Sequence[Job]) -> Any:
        if self.settings.kind == "predict":
            return super().encode(jobs)
        return Sizes([max(1, job.record.size) for job in jobs])  # what is scored or embedded is encoded there

    def _compute(self, jobs: Sequence[Job], examples: Any) -> None:
        served, settings = self.served, self.settings
        if settings.kind == "predict":
            examples = self.encode(jobs) if examples is None else examples
            with served.packed:
                answers: Sequence[Any] = predict(
                    served.task, served.model, examples, decode=served.decode(settings.value)
                )
        else:
            answers = served.compute(settings.kind, settings.value, [job.record for job in jobs])
        for job, answer in zip(jobs, answers, strict=True):
            job.resolve(answer)


class Sizes(NamedTuple):
    """The sizes of inputs that are not encoded: characters, or tokens."""

    lengths: list[int]


class SearchGroup(Group):
    """Inputs for which text is written: they join a running search."""

    def __init__(self, settings: Settings, *, batch_tokens: int, on_batch: Callable[[int], None]) -> None:
        super().__init__(settings, batch_tokens=batch_tokens, on_batch=on_batch)
        self.decode, self.attention = settings.value
        served = self.served
        model: Any = served.model
        most = most_together(self.decode, served.device)
        self.search = OpenSearch(
            model, most=most, attention=self.attention or self.decode.copy_unknown, packed=served.packed
        )
        self.jobs: dict[int, tuple[Job, Asked, int, int]] = {}
        """The job of each sentence in the search, its batch, its row there, and its tokens."""
        self.read_at = 0.0
        """When inputs were last read."""
        self.held: tuple[list[Job], Asked, Any, list[int]] | None = None
        """Inputs that are read, and can join only when the search has ended."""

    @property
    def running(self) -> int:
        held = self.held  # another thread may compute the turn
        return len(self.jobs) + (0 if held is None else len(held[0]))

    def computing(self) -> Iterable[Job]:
        return chain((job for job, *_ in self.jobs.values()), () if self.held is None else self.held[0])

    def turn(self) -> int:
        self.forget()
        gone = [number for number, (job, *_) in self.jobs.items() if not job.ticket.wanted]
        if gone:
            self.search.drop(gone)
            for number in gone:
                del self.jobs[number]
        try:
            self._admit()
            count = len(self.jobs)
            self._advance()
        except Exception as error:  # nothing is known of the sentences in the search any more
            self._fail(error)
            return 0
        return count

    def _admit(self) -> None:
        """Read inputs of the queue and let them join the search, where it has vacancies and tokens left."""
        if self.held is not None:
            if not self.search.fits(self.held[1].question.memory, self.held[2]):
                return
            held, self.held = self.held, None
            self._join(*held)
        vacant = self.search.vacancies
        left = self.batch_tokens - sum(tokens for *_, tokens in self.jobs.values())
        if not self.queue or vacant < 1 or (self.jobs and left < 1):
            return
        # Reading a few together costs hardly more than reading one: those that come meanwhile wait for each other.
        began = time.monotonic()
        few = min(vacant, len(self.queue)) < len(self.jobs) * TOGETHER_SHARE
        if few and began - self.read_at < READS_WAITED * self.served.read_seconds:
            return
        jobs, examples = self.take(min(vacant, max(1, left)), left)  # an input has at least one token
        if jobs:
            self.each_alone(jobs, lambda some: self._read(some, examples if len(some) == len(jobs) else None))
            self.read_at = time.monotonic()
            self.served.note_read(self.read_at - began)

    def _read(self, jobs: Sequence[Job], examples: Any) -> None:
        """Read some inputs together, and let them join the search."""
        task, decode = self.served.task, self.decode
        model: Any = self.served.model
        records = [job.record for job in jobs]
        with torch.inference_mode(), self.served.packed:
            examples = self.encode(jobs) if examples is None else examples
            batch = task.collate(examples, range(len(jobs))).to(self.served.device)
            wordings = [job.wording for job in jobs] if any(job.wording for job in jobs) else None
            asked = ask(task, model, batch, records=records, decode=decode, wordings=wordings, attention=self.attention)
            options = asked.options()
            limits = options["limits"] or [decode.max_length] * len(jobs)
            own = [min(limit, job.max_length or limit) for limit, job in zip(limits, jobs, strict=True)]
            keys = [job.key or 0 for job in jobs] if decode.sample else None
            options |= {"limits": own, "keys": keys, "seeds": [job.seed for job in jobs]}
            request = prepare(model, len(jobs), decode, can_prefill=can_prefill(model), **options)
        tokens = [int(np.max(length)) for length in examples.lengths]
        if self.search.fits(asked.question.memory, request):
            self._join(list(jobs), asked, request, tokens)
        else:
            self.held = (list(jobs), asked, request, tokens)

    def _join(self, jobs: list[Job], asked: Asked, request: Any, tokens: list[int]) -> None:
        numbers = self.search.join(asked.question.memory, request, expected=round(self.served.peak))
        for row, (number, job) in enumerate(zip(numbers, jobs, strict=True)):
            self.jobs[number] = (job, asked, row, tokens[row])
            if job.ticket.pieces is not None:
                job.stream = TextStream(asked.question.tokenizer, asked.prompts[row], self.decode.stop_at)
                job.ticket.piece(job.number, job.stream.begin())
        self.served.count_tokens("read", sum(tokens))

    def _advance(self) -> None:
        """Make some steps; pass on the texts that have ended, and the pieces of those that are streamed."""
        if not self.jobs:
            return
        self.on_batch(len(self.jobs))
        self.served.note_together(len(self.jobs))
        streams = any(job.stream is not None for job, *_ in self.jobs.values())
        for number, hypotheses in self.search.advance(1 if streams else ROUND_STEPS):
            job, asked, row, _ = self.jobs.pop(number)
            if job.stream is not None and hypotheses:
                job.ticket.piece(job.number, job.stream.add(hypotheses[0].tokens[job.sent :]))
                job.ticket.piece(job.number, job.stream.finish())
            try:
                answer: Generation = asked.answer(row, hypotheses)
            except WeftError as error:
                job.fail(placed(error, job.place))
                continue
            self.served.count_tokens("written", len(hypotheses[0].log_probabilities) if hypotheses else 0)
            job.resolve(answer)
        for number, (job, *_) in self.jobs.items() if streams else ():
            if job.stream is not None:
                sure = self.search.decided(number)
                if len(sure) > job.sent:
                    job.ticket.piece(job.number, job.stream.add(sure[job.sent :]))
                    job.sent = len(sure)

    def _fail(self, error: Exception) -> None:
        """End all that runs with an error; the next input begins a new search."""
        for job, *_ in self.jobs.values():
            job.fail(error)
        self.jobs.clear()
        self.search.close()


def placed(error: Exception, place: str) -> Exception:
    """An error about one input, with the name of the input."""
    if isinstance(error, DataError) and place:
        return RequestError(error.what, param=place, cure=error.cure)
    return error
