"""The calls of huggingface_hub that weft needs: list a repository, read one file of it, make a commit.

huggingface_hub knows the endpoint ($HF_ENDPOINT) and the token ($HF_TOKEN, or that of `hf auth login`), which weft
never sees in any other way and never prints. Its functions that build models, or read pickles, are not used.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from weft.console import visible
from weft.errors import Fault, RunError, WeftError
from weft.run.hub.address import Address

LOGIN: Final = "log in with `hf auth login`, or set HF_TOKEN"

TIMEOUT_SECONDS: Final = 30
"""Seconds until a question to the hub without an answer is an error; files are read with the limits of the library."""

MAX_REASON_CHARACTERS: Final = 200
"""Characters of the hub's own message that an error quotes."""

HTTP_PACKAGES: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
"""Packages whose errors mean that the network failed; huggingface_hub has changed from one to another."""

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Unreachable(Fault):
    """The hub does not answer."""


class RemoteFiles(NamedTuple):
    """The commit that a revision means, the bytes of each file in it, and whether others can see the repository."""

    commit: str
    sizes: Mapping[str, int]
    private: bool


class Hub:
    """The hub for one address."""

    def __init__(self, address: Address) -> None:
        import huggingface_hub
        from huggingface_hub import errors, utils

        self.address, self.library, self.errors = address, huggingface_hub, errors
        self.tools: Any = utils
        self.api = huggingface_hub.HfApi(library_name="weft")

    @property
    def page(self) -> str:
        """The page of the repository for browsers."""
        return f"{self.api.endpoint}/{self.address.repository}"

    def files(self) -> RemoteFiles:
        """Return what the repository holds at the revision."""
        with self._errors():
            found = self.api.model_info(
                self.address.repository, revision=self.address.revision, files_metadata=True, timeout=TIMEOUT_SECONDS
            )
            sizes = {one.rfilename: one.size for one in found.siblings or ()}
            commit = found.sha
        whole = all(isinstance(name, str) and isinstance(size, int) and size >= 0 for name, size in sizes.items())
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not whole:
            raise Fault("gives an answer that is not that of a hub", where=self.page, cure="check HF_ENDPOINT")
        return RemoteFiles(
            commit, {name: size for name, size in sizes.items() if size is not None}, bool(found.private)
        )

    def download(self, name: str, commit: str, path: Path, *, size: int) -> None:
        """Write a file of `size` bytes, or continue where an interrupted download of it ended."""
        from huggingface_hub.file_download import http_get

        url = self.library.hf_hub_url(self.address.repository, name, revision=commit, endpoint=self.api.endpoint)
        headers = self.tools.build_hf_headers(library_name="weft") | {"Accept-Encoding": "identity"}
        with self._errors(name), _open_part(path) as part:
            begun = part.seek(0, os.SEEK_END)
            if begun > size:
                begun = part.seek(0)
                part.truncate()
            bounded: Any = BoundedFile(part, size)
            http_get(url, bounded, resume_size=begun, headers=headers, expected_size=size, displayed_filename=name)

    def make(self, *, private: bool) -> None:
        """Make the repository and the branch where they are missing."""
        with self._errors(writes=True):
            self.api.create_repo(self.address.repository, private=private or None, exist_ok=True)
            if self.address.revision != "main":
                self.api.create_branch(self.address.repository, branch=self.address.revision, exist_ok=True)

    def commit(self, files: Mapping[str, bytes | Path], *, removed: list[str], message: str) -> str:
        """Upload files in one commit, which removes others; return its hash."""
        add, delete = self.library.CommitOperationAdd, self.library.CommitOperationDelete
        with self._errors(writes=True):
            operations: list[Any] = [
                add(name, content if isinstance(content, bytes) else str(content)) for name, content in files.items()
            ]
            operations += [delete(name) for name in removed]
            found = self.api.create_commit(
                self.address.repository, operations, commit_message=message, revision=self.address.revision
            )
        return str(found.oid)

    @contextmanager
    def _errors(self, name: str = "", *, writes: bool = False) -> Iterator[None]:
        """Turn errors of the library and of the network into one line; its own messages and warnings are not shown."""
        logger = logging.getLogger("huggingface_hub")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            with warnings.catch_warnings(), self._bars():
                warnings.simplefilter("ignore")
                yield
        except WeftError:
            raise
        except Exception as error:
            found = self._explain(error, name, writes=writes)
            if found is None:
                raise
            raise found from error
        finally:
            logger.setLevel(level)

    @contextmanager
    def _bars(self) -> Iterator[None]:
        """Show progress bars only on a terminal."""
        if sys.stderr.isatty() or self.tools.are_progress_bars_disabled():
            yield
            return
        self.tools.disable_progress_bars()
        try:
            yield
        finally:
            self.tools.enable_progress_bars()

    def _explain(self, error: Exception, name: str, *, writes: bool) -> WeftError | None:
        """Return the error to raise; None if it is none of the hub's."""
        errors, where = self.errors, f"{self.address}{f'/{name}' if name else ''}"
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        if isinstance(cause, errors.OfflineModeIsEnabled):
            return Unreachable("HF_HUB_OFFLINE is set", where=where, cure="unset it to reach the hub")
        if isinstance(cause, errors.GatedRepoError):
            return RunError("its owner decides who may read it", where=where, cure=f"ask on {self.page}, then {LOGIN}")
        if isinstance(cause, errors.RevisionNotFoundError):
            return RunError(f"has no revision {self.address.revision}", where=where, cure=f"see {self.page}")
        if isinstance(cause, errors.EntryNotFoundError):
            return RunError("is not there", where=where, cure=f"see {self.page}")
        if isinstance(cause, errors.RepositoryNotFoundError) and not writes:
            return RunError("there is no such model, or it is private", where=where, cure=f"check the name, or {LOGIN}")
        if isinstance(cause, errors.HfHubHTTPError):
            return self._explain_status(cause, where, writes=writes)
        if isinstance(cause, errors.LocalTokenNotFoundError):
            return RunError("needs a token", where=where, cure=LOGIN)
        if type(cause).__module__.partition(".")[0] in HTTP_PACKAGES:
            what = f"the hub cannot be reached at {self.api.endpoint}: {_reason(str(cause) or type(cause).__name__)}"
            return Unreachable(what, where=where, cure="check the network, or HF_ENDPOINT")
        if isinstance(cause, OSError) and cause.errno is None:  # of the check of its size
            return Fault("came incomplete", where=where, cure="start the command again: it goes on where it ended")
        if isinstance(cause, OSError):
            return Fault(f"cannot be written: {cause.strerror}", where=str(cause.filename or where))
        return None

    def _explain_status(self, error: Any, where: str, *, writes: bool) -> WeftError:
        status = getattr(error.response, "status_code", 0)
        said = _reason(error.server_message or "")
        said = f": {said}" if said else ""
        if status == 401:
            return RunError(f"the hub knows no valid token (401){said}", where=where, cure=LOGIN)
        if status in (403, 404):
            cure = f"{LOGIN}, with a token that may write there" if writes else LOGIN
            return RunError(f"the token does not allow it ({status}){said}", where=where, cure=cure)
        if status == 429:
            return Fault(f"the hub allows no more requests now (429){said}", where=where, cure="try again later")
        if status >= 500:
            return Fault(f"the hub has an error ({status}){said}", where=where, cure="try again later")
        return Fault(f"the hub refuses the request ({status}){said}", where=where)


class BoundedFile:
    """A file that is never larger than was said: a server that sends more is stopped there."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.file, self.most = file, most
        self.seek, self.tell, self.truncate = file.seek, file.tell, file.truncate

    def write(self, data: bytes) -> int:
        if self.file.tell() + len(data) > self.most:
            raise Fault(f"the hub sends more than the {self.most:,} bytes of the file", cure="try again later")
        return self.file.write(data)


def _open_part(path: Path) -> IO[bytes]:
    """Open the file of a download, new or begun; a link is not followed."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o644), "r+b")


def _reason(text: str) -> str:
    return visible(" ".join(text.split()))[:MAX_REASON_CHARACTERS]
