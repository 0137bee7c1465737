"""Answers the parts of a batch with Ray Data: each actor has a model of its own.

Files are read on this machine and answers are written on it, so the others need neither; they need weft, and get the
model, your own classes and the rows through Ray. A part that was lost with its actor is answered again by another.

Ray is started on the loopback interface of this machine alone, without its dashboard and its reports of usage, unless
the address of a cluster is given.
"""

from __future__ import annotations

import logging
import os
import secrets
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from weft.batch.engine import Setup
from weft.batch.source import Part, Source, read_part
from weft.batch.worker import Work, Worker, load_worker
from weft.errors import ConfigError, DataError, Fault, WeftError, counted
from weft.extras import EXTRAS
from weft.run.folder.files import MANIFEST
from weft.run.folder.manifest import read_run

QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Settings that keep Ray from reporting its use, collecting metrics, drawing, and hiding devices."""

READERS: Final = 2
"""Parts that are read at a time; reading takes far less time than answering."""

LOOPBACK: Final = "127.0.0.1"


class RayEngine:
    """Actors of a Ray that is started."""

    def __init__(self, setup: Setup, *, shared: bool) -> None:
        import ray

        resources = ray.cluster_resources()
        gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        self.gpu = setup.device.startswith("cuda") or (setup.device == "auto" and gpus > 0)
        if self.gpu and not gpus:
            raise ConfigError("Ray has no GPU", where=f"--device {setup.device}", cure="leave it out, or --device cpu")
        threads = setup.threads or 1
        self.threads: int | None = threads
        self.actors = setup.actors or (gpus if self.gpu else max(1, cores // threads))
        most = gpus if self.gpu else cores // threads
        if self.actors > max(1, most):
            each = counted(threads, "thread")
            what = f"there are {gpus} GPUs" if self.gpu else f"there are {cores} cores, for {each} each"
            raise ConfigError(what, where=f"--actors {self.actors}", cure=f"at most {max(1, most)}")
        if not self.gpu and threads > cores:
            raise ConfigError(f"there are {cores} cores", where=f"--threads {threads}", cure=f"at most {cores}")
        self.device = "cuda" if self.gpu else "cpu" if setup.device == "auto" else setup.device
        self.own_device = "cpu"
        self.chunk = "cuda" if self.gpu else "cpu"
        self.shared = shared

    def answer(self, worker: Worker, sources: Sequence[Source], parts: Sequence[Part]) -> Iterator[tuple[int, bytes]]:
        import ray

        work = worker.work
        shipped = ray.put(run_files(work)) if self.shared else None
        dataset = ray.data.read_datasource(
            _datasource(sources, parts),
            override_num_blocks=len(parts),
            # Reading takes no core of an actor, and is done where the files are.
            num_cpus=0,
            concurrency=READERS,
            label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
        )
        answered = dataset.map_batches(
            _Actor,
            fn_constructor_args=(work, None if shipped is None else [shipped]),
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=min(self.actors, len(parts))),
            num_cpus=self.threads,
            num_gpus=1 if self.gpu else 0,
        )
        for batch in answered.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=1):
            for row in batch.to_pylist():
                if row["kind"]:
                    raise _error(row)
                yield row["number"], row["content"]


def run_files(work: Work) -> dict[str, bytes]:
    """The files of a run that are read to load it, for machines that do not have its folder."""
    names = [MANIFEST, *read_run(work.run, lambda files: sorted(files.hashes))]
    return {name: (work.run / name).read_bytes() for name in names}


def _datasource(sources: Sequence[Source], parts: Sequence[Part]) -> Any:
    """The parts as a data source of Ray Data: a block, with one row, for each."""
    import pyarrow
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    def read(part: Part) -> Iterable[Any]:
        source = sources[part.file]
        yield _block(part, read_part(source.path, source.format, part, name=source.name))

    class Parts(Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *args: Any, **options: Any) -> list[Any]:
            about = BlockMetadata(num_rows=1, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(partial(read, part), about) for part in parts]

        def get_name(self) -> str:
            return "Parts"

    def _block(part: Part, content: bytes) -> Any:
        columns = {name: pyarrow.array([value]) for name, value in part._asdict().items()}
        return pyarrow.table({**columns, "content": pyarrow.array([content], type=pyarrow.large_binary())})

    return Parts()


class _Actor:
    """A process with a model. An error is an answer too, so that it arrives as it was raised."""

    def __init__(self, work: Work, shipped: list[Any] | None) -> None:
        self.work, self.shipped = work, shipped
        self.worker: Worker | None = None

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        (row,) = batch.to_pylist()
        content = row.pop("content")
        found = {"number": row["number"], "content": b"", "kind": "", "what": "", "where": "", "cure": ""}
        try:
            found["content"] = self._load().answer(Part(**row), content)
        except WeftError as error:
            found |= {"kind": type(error).__name__, "what": error.what}
            found |= {"where": error.where or "", "cure": error.cure or ""}
        except Exception as error:
            found |= {"kind": "fault", "what": "".join(traceback.format_exception(error))}
        columns = {name: [value] for name, value in found.items() if name != "content"}
        return pyarrow.table({**columns, "content": pyarrow.array([found["content"]], type=pyarrow.large_binary())})

    def _load(self) -> Worker:
        import ray

        if self.worker is None:
            self.worker = load_worker(self.work, None if self.shipped is None else ray.get(self.shipped[0]))
        return self.worker


def _error(row: Mapping[str, Any]) -> Exception:
    """The error of an actor, to be raised here."""
    if row["kind"] == "fault":
        lines = row["what"].strip().splitlines()
        return RuntimeError(f"{lines[-1]}\n\nIn an actor of Ray:\n{row['what']}")
    kinds = {kind.__name__: kind for kind in (DataError, Fault)}
    kind = kinds.get(row["kind"], WeftError)
    return kind(row["what"], where=row["where"] or None, cure=row["cure"] or None)


@contextmanager
def started_ray(setup: Setup) -> Iterator[RayEngine]:
    """Connect to the cluster at the address or RAY_ADDRESS, or start Ray on this machine until the block ends."""
    address = setup.address or os.environ.get("RAY_ADDRESS") or None
    if address is not None and address.startswith("ray://"):
        cure = "start weft on a machine of the cluster: --address auto"
        raise ConfigError("is the address of a client, whose files Ray cannot read", where=address, cure=cure)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if address is None:
        _keep_local()
    try:
        import ray
        import ray.data
    except ImportError:
        raise WeftError("needs Ray", where="--engine ray", cure=EXTRAS["ray"].install) from None
    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if address is None:
            options |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
            options |= {"num_cpus": _cores(setup)}
        try:
            ray.init(address=address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            said = " ".join(str(error).split())
            where = f"--address {address}" if address else "--engine ray"
            raise Fault(f"Ray cannot be reached: {said:.300}", where=where, cure="check: ray status") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield RayEngine(setup, shared=address is not None)
    finally:
        if mine:
            ray.shutdown()


def _keep_local() -> None:
    """Let Ray listen on the loopback interface only, with a password that no file holds."""
    # Ray has this for systems on which it supports no clusters; it then uses the loopback interface.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _cores(setup: Setup) -> int:
    """The cores that Ray may use on this machine: those of this process, or as many as the actors need."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(cores, (setup.actors or 1) * (setup.threads or 1))
