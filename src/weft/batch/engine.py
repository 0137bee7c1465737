"""The engine that computes the parts of a batch: this process, or the actors of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple, Protocol

from weft.batch.source import Part, Source, read_part
from weft.batch.worker import Worker
from weft.errors import ConfigError
from weft.training.device import device_type


class Setup(NamedTuple):
    """The options of an engine, as the user gave them."""

    actors: int | None = None
    threads: int | None = None
    address: str | None = None
    device: str = "auto"


class Engine(Protocol):
    """A started engine."""

    device: str
    """The device of its models."""
    own_device: str
    """The device of the model in this process, which checks the options."""
    threads: int | None
    """The threads of each model; None leaves it to torch."""
    chunk: str
    """The kind of device by whose chunks the parts are made."""

    def answer(self, worker: Worker, sources: Sequence[Source], parts: Sequence[Part]) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the file of each part, in any order."""
        ...


class LocalEngine:
    """Answers one part after the other in this process."""

    def __init__(self, setup: Setup) -> None:
        if setup.actors is not None or setup.address is not None:
            where = "--actors" if setup.actors is not None else "--address"
            raise ConfigError("is for --engine ray", where=where, cure="leave it out, or add --engine ray")
        self.device = self.own_device = setup.device
        self.threads = setup.threads
        self.chunk = "cuda" if device_type(setup.device) == "cuda" else "cpu"

    def answer(self, worker: Worker, sources: Sequence[Source], parts: Sequence[Part]) -> Iterator[tuple[int, bytes]]:
        for part in parts:
            source = sources[part.file]
            yield part.number, worker.answer(part, read_part(source.path, source.format, part, name=source.name))


@contextmanager
def start_local(setup: Setup) -> Iterator[Engine]:
    yield LocalEngine(setup)


@contextmanager
def start_ray(setup: Setup) -> Iterator[Engine]:
    from weft.batch.ray_engine import started_ray

    with started_ray(setup) as engine:
        yield engine


ENGINES: Final[Mapping[str, Callable[[Setup], AbstractContextManager[Engine]]]] = {
    "local": start_local,
    "ray": start_ray,
}
"""The engines by their names."""
