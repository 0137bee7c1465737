"""A stand-in of the Hugging Face hub on the loopback address, with the endpoints that huggingface_hub uses.

Repositories are in memory. Small files are in the commit; weights are uploaded to and redirected to a second server, as
the hub does with its storage, so that a test sees what is sent there. `faults` makes it answer as a broken hub would.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_secretsecretsecret"


class Asked(NamedTuple):
    """A request that a server has got."""

    method: str
    path: str
    token: str | None
    range: str | None = None


@dataclass
class Repository:
    """Branches by name, and the files of each commit."""

    private: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Add a commit with exactly these files; return its hash."""
        listing = json.dumps([(name, hashlib.sha256(content).hexdigest()) for name, content in sorted(files.items())])
        sha = hashlib.sha1(f"{branch}{len(self.commits)}{listing}".encode()).hexdigest()
        self.commits[sha], self.branches[branch] = dict(files), sha
        return sha

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        sha = self.branches.get(revision, revision)
        return (sha, self.commits[sha]) if sha in self.commits else None


@dataclass
class Faults:
    """What goes wrong: a status for paths that match, a name whose next answers are cut, sizes that are announced."""

    status: dict[str, int] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)


class StandIn:
    """The state of both servers."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.stored: list[Asked] = []
        self.faults = Faults()
        self.url = self.storage = ""

    def repository(self, name: str, files: dict[str, bytes] | None = None, *, private: bool = False) -> Repository:
        found = self.repositories.setdefault(name, Repository(private))
        if files is not None:
            found.commit(files)
        return found


def is_large(name: str) -> bool:
    return name.endswith(".safetensors")


class Handler(BaseHTTPRequestHandler):
    """What both servers share."""

    state: StandIn

    def log_message(self, format: str, *values: Any) -> None:
        """Print nothing."""

    @property
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def seen(self) -> Asked:
        return Asked(self.command, self.path, self.headers.get("Authorization"), self.headers.get("Range"))

    def say(self, value: Any, status: int = 200, **headers: str) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def missing(self, code: str, status: int = 404) -> None:
        self.say({"error": code}, status, X_Error_Code=code, X_Error_Message=code)

    def send(self, name: str, content: bytes, **headers: str) -> None:
        """Send a file, or its end from the first byte of a Range on; a cut answer ends too early."""
        begin = int(match[1]) if (match := re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")) else 0
        cuts = self.state.faults.cut.get(name)
        rest = content[begin:]
        self.send_response(206 if begin else 200)
        if name in self.state.faults.endless:
            rest = rest + b"x" * 100_000
        else:
            self.send_header("Content-Length", str(len(rest)))
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        for key, text in headers.items():
            self.send_header(key.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(rest[: cuts.pop(0)] if cuts else rest)


class HubHandler(Handler):
    """The hub itself."""

    def handle_any(self) -> None:
        path, state = urlsplit(self.path).path, self.state
        state.asked.append(self.seen())
        for pattern, status in state.faults.status.items():
            if re.search(pattern, f"{self.command} {path}"):
                self.body  # noqa: B018  (read, so that the client sees the answer)
                self.say({"error": "as the test wants"}, status)
                return
        for pattern, answer in self.routes().items():
            if match := re.fullmatch(pattern, f"{self.command} {path}"):
                answer(*map(unquote, match.groups()))
                return
        self.missing("EntryNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def routes(self) -> dict[str, Callable[..., None]]:
        name = r"([\w.-]+/[\w.-]+)"
        return {
            r"POST /api/repos/create": self.create,
            r"POST /api/validate-yaml": lambda: self.say({"errors": [], "warnings": []}),
            rf"GET /api/models/{name}": lambda one: self.info(one, "main"),
            rf"GET /api/models/{name}/revision/([^/]+)": self.info,
            rf"POST /api/models/{name}/branch/([^/]+)": self.branch,
            rf"POST /api/models/{name}/preupload/([^/]+)": self.preupload,
            rf"POST /api/models/{name}/commit/([^/]+)": self.commit,
            rf"POST /{name}\.git/info/lfs/objects/batch": self.batch,
            rf"(?:GET|HEAD) /{name}/resolve/([^/]+)/(.+)": self.resolve,
        }

    def allowed(self, name: str = "") -> bool:
        """Whether the token is right; private repositories and all writes need one."""
        repository = self.state.repositories.get(name)
        reads, known = self.command in ("GET", "HEAD"), self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if known and name and repository is None:
            self.body  # noqa: B018
            self.missing("RepoNotFound")
            return False
        if known or (reads and repository and not repository.private):
            return True
        self.body  # noqa: B018
        self.missing("RepoNotFound" if reads else "Unauthorized", 401)
        return False

    def create(self) -> None:
        if self.allowed():
            asked = json.loads(self.body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            known = name in self.state.repositories
            found = self.state.repository(
                name, private=bool(asked.get("private")) or asked.get("visibility") == "private"
            )
            if not known:
                found.commit({".gitattributes": b""})
            self.say({"url": f"{self.state.url}/{name}", "name": name, "id": "1"}, 409 if known else 200)

    def info(self, name: str, revision: str) -> None:
        if not self.allowed(name):
            return
        repository = self.state.repositories[name]
        found = repository.files(revision)
        if found is None:
            self.missing("RevisionNotFound")
            return
        sizes = self.state.faults.sizes
        siblings = [{"rfilename": one, "size": sizes.get(one, len(content))} for one, content in found[1].items()]
        about = {"id": name, "modelId": name, "private": repository.private, "tags": [], "downloads": 0, "likes": 0}
        self.say(about | {"sha": found[0], "siblings": siblings})

    def branch(self, name: str, branch: str) -> None:
        if self.allowed(name):
            repository = self.state.repositories[name]
            known = branch in repository.branches
            repository.branches.setdefault(branch, repository.branches["main"])
            self.say({}, 409 if known else 200)

    def preupload(self, name: str, revision: str) -> None:
        if self.allowed(name):
            files = json.loads(self.body)["files"]
            modes = [("lfs" if is_large(one["path"]) else "regular", one["path"]) for one in files]
            self.say({"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for mode, path in modes]})

    def batch(self, name: str) -> None:
        if self.allowed(name):
            objects = [
                {"oid": one["oid"], "size": one["size"]}
                | {"actions": {"upload": {"href": f"{self.state.storage}/{one['oid']}"}}}
                for one in json.loads(self.body)["objects"]
            ]
            self.say({"transfer": "basic", "objects": objects})

    def commit(self, name: str, revision: str) -> None:
        if not self.allowed(name):
            return
        repository = self.state.repositories[name]
        files = dict((repository.files(revision) or ("", {}))[1])
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.state.blobs[value["oid"]]
            elif entry["key"] == "deletedFile":
                files.pop(value["path"])
        sha = repository.commit(files, revision)
        self.say({"commitUrl": f"{self.state.url}/{name}/commit/{sha}", "commitOid": sha, "success": True})

    def resolve(self, name: str, revision: str, path: str) -> None:
        if not self.allowed(name):
            return
        found = self.state.repositories[name].files(revision)
        if found is None or path not in found[1]:
            self.missing("RevisionNotFound" if found is None else "EntryNotFound")
            return
        content = found[1][path]
        digest = hashlib.sha256(content).hexdigest()
        headers = {"X_Repo_Commit": found[0], "ETag": f'"{digest}"'}
        if not is_large(path):
            self.send(path, content, **headers)
            return
        self.state.blobs[digest] = content
        linked = {"X_Linked_Size": str(len(content)), "X_Linked_Etag": f'"{digest}"'}
        self.say(b"", 302, Location=f"{self.state.storage}/{digest}?name={path}&signature=abc", **headers, **linked)


class StorageHandler(Handler):
    """The storage of large files, which knows no tokens."""

    def do_GET(self) -> None:
        self.state.stored.append(self.seen())
        asked = urlsplit(self.path)
        self.send(parse_qs(asked.query)["name"][0], self.state.blobs[asked.path[1:]])

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        self.state.stored.append(self.seen())
        self.state.blobs[urlsplit(self.path).path[1:]] = self.body
        self.say(b"")


@contextmanager
def running() -> Iterator[StandIn]:
    """Both servers, until the block ends."""
    state = StandIn()
    servers = []
    for kind in (HubHandler, StorageHandler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"state": state}))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    state.url, state.storage = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    try:
        yield state
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
