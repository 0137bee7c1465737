"""Connections without a whole head are closed, and so are those beyond the file descriptors of the process."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

pytest.importorskip("uvicorn", reason="needs: pip install 'weft[serve]'")

import uvicorn
from uvicorn.server import ServerState

from weft.serve import connections
from weft.serve.connections import BoundedConnection

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def talk(script, app=answer):
    """Run a script with the address of a server."""

    async def run():
        config, state = uvicorn.Config(app, http=BoundedConnection, log_config=None), ServerState()
        config.load()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0)
        async with server:
            return await asyncio.wait_for(script(*server.sockets[0].getsockname()[:2]), 20)

    return asyncio.run(run())


def test_half_a_head_ends_the_connection(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

    async def script(host, port):
        ended = []
        for sent in (b"", HEAD):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(sent)
            ended.append(await reader.read())
            writer.close()
        return ended

    assert talk(script) == [b"", b""]


def test_a_second_request_may_come_late_but_not_in_halves(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

    async def script(host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HEAD + b"\r\n")
        first = await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.4)  # longer than a head may take: the connection is idle and kept
        writer.write(HEAD + b"\r\n")
        second = await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        return first, second, await reader.read()

    first, second, rest = talk(script)
    assert first.startswith(b"HTTP/1.1 204")
    assert second.startswith(b"HTTP/1.1 204")
    assert rest == b""


def test_a_body_that_never_ends_ends_the_connection_that_has_answered(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)

    async def script(host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        first = await reader.readuntil(b"\r\n\r\n")
        rest = asyncio.ensure_future(reader.read())
        while not rest.done():
            writer.write(b"1\r\nx\r\n")
            await asyncio.wait({rest}, timeout=0.02)
        return first, await asyncio.gather(rest, return_exceptions=True)

    first, (rest,) = talk(script)
    assert first.startswith(b"HTTP/1.1 204")
    assert isinstance(rest, ConnectionError) or rest == b""


def test_a_body_that_ends_late_keeps_its_connection(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.4)

    async def script(host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HEAD + b"Content-Length: 2\r\n\r\na")
        first = await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.3)
        writer.write(b"b")
        await asyncio.sleep(0.3)
        writer.write(HEAD + b"\r\n")
        return first, await reader.readuntil(b"\r\n\r\n")

    assert all(said.startswith(b"HTTP/1.1 204") for said in talk(script))


@pytest.mark.parametrize("reads", [False, True], ids=["nothing", "slowly"])
def test_a_client_that_does_not_read_ends_the_connection(monkeypatch, reads):
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(connections, "UNREAD_BYTES", 1 << 12)
    size = 1 << 24

    async def write(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})

    async def script(host, port):
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 12)
        writer.write(HEAD + b"\r\n")
        found = len(await reader.readuntil(b"\r\n\r\n")) * 0
        while reads and found < size:
            found += len(await reader.read(1 << 19))
            await asyncio.sleep(0.02)
        await asyncio.sleep(0 if reads else 1)
        with contextlib.suppress(ConnectionError):
            while not reads and (part := await reader.read(1 << 20)):
                found += len(part)
        return found

    assert (talk(script, write) == size) is reads


def test_connections_beyond_the_descriptors_are_closed_at_once(monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 2)

    async def script(host, port):
        kept = [await asyncio.open_connection(host, port) for _ in range(2)]
        for _, writer in kept:
            writer.write(HEAD)
        await asyncio.sleep(0.05)
        refused, writer = await asyncio.open_connection(host, port)
        try:
            lost = await refused.read() == b""
        except ConnectionError:
            lost = True
        kept[0][1].write(b"\r\n")
        return lost, await kept[0][0].readuntil(b"\r\n\r\n")

    lost, said = talk(script)
    assert lost
    assert said.startswith(b"HTTP/1.1 204")


def test_some_descriptors_are_kept_for_other_things(monkeypatch):
    resource = pytest.importorskip("resource", reason="a system without limits of file descriptors")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (150, 150))
    assert connections.most_connections() == 150 - connections.SPARE_DESCRIPTORS
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, 10))
    assert connections.most_connections() == 1
