"""Saving a model into a run folder, and a thread that writes models and checkpoints while training continues."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from torch import Tensor, nn

from weft.config import Config
from weft.disk import open_regular, read_regular, sync
from weft.errors import Fault, RunError, show_path
from weft.limits import TOKENIZER_FILE_BYTES
from weft.run.folder.checkpoint import Checkpoints, remove
from weft.run.folder.files import CONFIG, JOURNAL, LABELS, STATISTICS, WEIGHTS, json_bytes, tokenizer_file, write_file
from weft.run.folder.lock import MAX_CLAIMS, identity
from weft.run.folder.manifest import FORMAT_VERSION, drop_manifest, hash_file, open_run, write_manifest
from weft.run.folder.weights import tied_names, write_weights
from weft.tasks import Codec
from weft.version import __version__

DISK_FULL: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors that pass when files are removed; another folder would not help, and the last checkpoint is whole."""

Write = Callable[[Path], None]


class ModelFiles:
    """The configuration, tokenizers and labels of a run as files: all that loading needs except the weights.

    They are the same every time that the model of a run is saved.
    """

    def __init__(self, config: Config, codec: Codec, model: nn.Module) -> None:
        head = {"model_type": f"weft-{config.task}", "format_version": FORMAT_VERSION, "weft_version": __version__}
        self.content = {CONFIG: json_bytes(head | config.tree())}
        for role, tokenizer in codec.tokenizers.items():
            self.content[tokenizer_file(role)] = tokenizer.to_json().encode()
        self.tokenizers = {name: content for name, content in self.content.items() if name != CONFIG}
        if codec.labels:
            self.content[LABELS] = json_bytes(list(codec.labels))
        if codec.statistics:
            self.content[STATISTICS] = json_bytes({name: found.tree() for name, found in codec.statistics.items()})
        self.hashes = {name: hashlib.sha256(content).hexdigest() for name, content in self.content.items()}
        self.tied = tied_names(model)


def save_run(folder: Path, files: ModelFiles, weights: Mapping[str, Tensor]) -> None:
    """Write all that loading needs; a reader, or a folder after a kill, has the old model or the new one.

    The manifest lists both hashes while the new weights replace the old. Only if the folder has no run yet, or one
    with other settings, there is no manifest until all files are written.
    """
    before = saved_weights(folder, files)
    if before is None:
        drop_manifest(folder)
        sync(folder)
        for path in (
            folder / LABELS,
            folder / STATISTICS,
            *folder.glob(tokenizer_file("*")),
            *folder.glob(tokenizer_file("")),
        ):
            if path.name not in files.content:  # of a run of another task
                path.unlink(missing_ok=True)
        for name, content in files.content.items():
            write_file(folder / name, content)
    found = ""

    def write(temporary: Path) -> None:
        nonlocal found
        found = write_weights(temporary, weights, files.tied)

    def list_both() -> None:
        if before is not None and before != found:
            write_manifest(folder, files.hashes | {WEIGHTS: [found, before]})

    write_file(folder / WEIGHTS, write, before_rename=list_both)
    write_manifest(folder, files.hashes | {WEIGHTS: found})


def saved_weights(folder: Path, files: ModelFiles) -> str | None:
    """Return the SHA-256 of the weights in a folder whose other files are these; None if there is no such run."""
    try:
        listed = dict(open_run(folder).hashes)
        before = listed.pop(WEIGHTS, ())
        if listed != {name: (found,) for name, found in files.hashes.items()}:
            return None
        for name, content in files.content.items():
            if read_regular(folder / name, most=max(TOKENIZER_FILE_BYTES, len(content))) != content:
                return None
        if len(before) == 1:
            return before[0]
        found = hash_file(folder / WEIGHTS)  # two hashes are left by a kill between the writes of the manifest
    except (RunError, OSError):
        return None
    return found if found in before else None


class Saver:
    """A thread that writes into a run folder, one write after the other, in the order of `submit`.

    Models and checkpoints are submitted as copies. One write of each kind may be pending: the next `submit` of that
    kind blocks until it is done, so that memory holds one copy. A write that fails sets `failed`, and `flush` raises
    its error. The folder must stay the one that it was when training began; where it is gone or cannot be written any
    more, a new folder replaces it.

    `folder` is the current folder. `original` is the one in which training began; its journal is written to the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = self.original = folder
        self._absolute = Path(os.path.abspath(folder))  # noqa: PTH100
        self._original_identity = self._identity = identity(folder)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-saver")
        self._pending: dict[str, Future[None]] = {}
        self._errors: list[BaseException] = []

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Block until all writes are done; raise the first error unless another exception ended the block."""
        self._thread.shutdown()
        if kind is None:
            self.flush()

    @property
    def failed(self) -> bool:
        """Whether a write has failed."""
        return bool(self._errors)

    @contextmanager
    def noting_faults(self) -> Iterator[None]:
        """Count a Fault inside the block as a write that failed: training then ends with a checkpoint."""
        try:
            yield
        except Fault as fault:
            self._errors.append(fault)

    def submit(self, kind: str, write: Write) -> None:
        """Have the thread call `write` with the folder. Nothing else may change the data that it writes."""
        self.wait(kind)
        self._pending[kind] = self._thread.submit(self._write, write)

    def wait(self, kind: str) -> None:
        """Block until the last write of that kind is done."""
        if kind in self._pending:
            self._pending.pop(kind).result()

    def flush(self) -> None:
        """Block until all writes are done, and raise the first error there was."""
        for kind in list(self._pending):
            self.wait(kind)
        if not self._errors:
            return
        error = self._errors[0]
        if isinstance(error, Fault) and self.folder != self.original:
            place = show_path(str(self.folder))
            whole = f"go on with --out {place} --resume" if Checkpoints(self.folder).steps() else "the model is whole"
            raise Fault(error.what, where=error.where, cure=f"what was learned is in {place}: {whole}") from error
        raise error

    def _write(self, write: Write) -> None:
        try:
            self._check()
            if self.folder != self.original:  # the journal is still written in the original folder
                self._copy_journal(self.folder)
            write(self.folder)
        except (Fault, OSError) as error:
            fault = self._explain(error)
            self._errors.append(fault)
            if getattr(fault.__cause__, "errno", None) not in DISK_FULL:
                self._move(write)
        except BaseException as error:  # raised by `flush`, in the thread of the training
            self._errors.append(error)

    def _check(self) -> None:
        if identity(self.folder) != self._identity:
            raise Fault("was renamed, removed or replaced while the model was trained", where=str(self.folder))

    def _explain(self, error: Fault | OSError) -> Fault:
        """Return the error of a write as a Fault; if the folder is no longer the same one, that is the reason."""
        try:
            self._check()
        except Fault as moved:
            return moved
        if isinstance(error, Fault):
            return error
        fault = Fault(f"cannot be written: {error.strerror or error}", where=str(error.filename or self.folder))
        fault.__cause__ = error
        return fault

    def _move(self, write: Write) -> None:
        """Write into a new folder from now on, beside the old one or else in the system's temporary folder."""
        for folder in self._new_folders():
            with suppress(Fault, OSError):
                self._copy_journal(folder)
                write(folder)
                self.folder, self._identity = folder, identity(folder)
                return
            remove(folder)

    def _copy_journal(self, folder: Path) -> None:
        if identity(self.original) == self._original_identity:
            with (
                suppress(FileNotFoundError),
                open_regular(self.original / JOURNAL) as source,
                (folder / JOURNAL).open("wb") as target,
            ):
                shutil.copyfileobj(source, target)

    def _new_folders(self) -> Iterator[Path]:
        """Make `NAME-rescued` beside the folder, then a temporary folder; yield each that can be made."""
        name = f"{self._absolute.name}-rescued"
        with suppress(OSError):
            for number in range(1, MAX_CLAIMS):
                with suppress(FileExistsError):
                    beside = self._absolute.with_name(name if number == 1 else f"{name}-{number}")
                    beside.mkdir()
                    yield beside
                    break
        with suppress(OSError):
            yield Path(tempfile.mkdtemp(prefix=f"weft-{name}-"))
