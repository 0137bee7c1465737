"""The commands that read hostile folders, as functions for a fork; each returns an exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults.forked import command, open_streams


def leave_out_extras() -> None:
    """As where only the core is installed: drawing curves takes longer than all the rest of a small run."""
    for name in ("altair", "tensorboard"):
        sys.modules[name] = None  # type: ignore[assignment]


def plainly(words: Sequence[str]) -> int:
    """`weft` with these words, without what is installed beside its core."""
    leave_out_extras()
    return command(words)


def really(words: Sequence[str]) -> int:
    """The same, by starting Python anew."""
    os.execv(sys.executable, [sys.executable, "-m", "weft", *words])


def keeping_tokens(words: Sequence[str]) -> int:
    """`weft train` that keeps the tokens of small files too."""
    import weft.run.data_cache

    weft.run.data_cache.MIN_CACHED_BYTES = 1
    return plainly(words)


def on_terminal(words: Sequence[str]) -> int:
    """`weft` on a terminal; what the terminal gets is written to standard output."""
    child, terminal = os.forkpty()
    if not child:
        os.environ["TERM"] = "dumb"
        open_streams()
        code = plainly(words)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    while data := _read(terminal):
        os.write(1, data)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def served(words: Sequence[str]) -> int:
    """`weft serve RUN`, which answers a request of each kind instead of listening; statuses are written."""
    return _serving(words, before=lambda client: None)


def loaded_again(words: Sequence[str]) -> int:
    """`weft serve good`, whose folder is replaced by `run` and loaded again while it serves."""

    def replace(client: Any) -> None:
        Path("good").rename("old")
        Path("run").rename("good")
        reply = client.post("/v1/reload", json={})
        # A folder that is refused is the one error of a server that it answers by 500.
        print(200 if reply.json().get("failed") else reply.status_code)

    return _serving(words, before=replace)


def _serving(words: Sequence[str], *, before: Callable[[Any], None]) -> int:
    import weft.serve.server

    def ask(app: Any, listener: Any, *, prepare: Callable[[], Any], **_: Any) -> bool:
        from starlette.testclient import TestClient

        listener.socket.close()
        asyncio.run(prepare())
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            before(client)
            print(*(client.get(path).status_code for path in ("/openapi.json", "/metrics", "/v1/models")))
            for route in ("predict", "embed", "score"):
                print(client.post(f"/v1/{route}", json={"inputs": ["the red", "the cat"]}).status_code)
        return True

    weft.serve.server.run_server = ask
    return plainly(words)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody writes to it any more
        return b""


def killed_at(words: Sequence[str], path: str) -> int:
    """`weft`, killed when it first makes, opens or renames a file with this in its path."""

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.mkdir", "os.rename") and any(path in str(argument) for argument in arguments):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    return plainly(words)
