"""The event loop and the engine take turns, and neither waits for the other for long."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="needs: pip install 'weft[serve]'")

from weft.serve import gil_turns as module
from weft.serve.gil_turns import GilTurns
from weft.serve.listening import listen


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Waits that are only ended by the other's turn, unless a test wants it otherwise."""
    monkeypatch.setattr(module, "PATIENCE", {"loop": 60.0, "engine": 60.0})


def start(turns, who):
    """A thread that wants its turn, once it waits for it; or has it."""
    thread = threading.Thread(target=turns.begin, args=(who,), daemon=True)
    thread.start()
    while who not in turns.waiting and thread.is_alive():
        time.sleep(0.001)
    return thread


@pytest.mark.parametrize(("first", "second"), [("loop", "engine"), ("engine", "loop")])
def test_one_waits_until_the_turn_of_the_other_ends(first, second):
    turns = GilTurns()
    turns.begin(first)
    thread = start(turns, second)
    assert thread.is_alive()
    assert turns.turn == first
    turns.end(first)
    thread.join(30)
    assert turns.turn == second


@pytest.mark.parametrize(("first", "second"), [("loop", "engine"), ("engine", "loop")])
def test_who_waits_is_the_next(first, second):
    """Who ends a turn and wants another at once gets it after the other, however threads are scheduled."""
    turns, order = GilTurns(), []
    turns.begin(first)

    def wait():
        turns.begin(second)
        order.append(second)
        turns.end(second)

    thread = threading.Thread(target=wait)
    thread.start()
    while second not in turns.waiting:
        time.sleep(0.001)
    turns.end(first)
    turns.begin(first)
    order.append(first)
    thread.join()
    assert order == [second, first]


@pytest.mark.parametrize(("who", "other"), [("loop", "engine"), ("engine", "loop")])
def test_patience_ends(monkeypatch, who, other):
    monkeypatch.setattr(module, "PATIENCE", {"loop": 0.01, "engine": 0.01})
    turns = GilTurns()
    turns.begin(other)
    turns.begin(who)
    assert turns.turn == other
    turns.end(who)
    assert turns.turn == other
    turns.end(other)
    assert turns.turn is None


@pytest.mark.parametrize(("who", "other"), [("loop", "engine"), ("engine", "loop")])
def test_patience_is_lost_once_in_a_turn(monkeypatch, who, other):
    """Who has a turn without end, such as a loop with ever new requests, holds the other up once."""
    turns = GilTurns()
    turns.begin(other)
    monkeypatch.setattr(module, "PATIENCE", {"loop": 0.01, "engine": 0.01})
    turns.begin(who)
    monkeypatch.setattr(module, "PATIENCE", {"loop": 60.0, "engine": 60.0})
    for _ in range(3):
        turns.begin(who)
        turns.end(who)
    turns.end(other)
    turns.begin(other)
    assert start(turns, who).is_alive(), "in the next turn it waits again"
    turns.end(other)


def test_an_invited_loop_goes_first():
    turns = GilTurns()
    turns.new_loop().close()
    turns.invite_loop()
    engine = start(turns, "engine")
    assert engine.is_alive()
    turns.begin("loop")
    turns.end("loop")
    engine.join(30)
    assert turns.turn == "engine"


def test_an_invitation_ends_with_the_work_of_a_loop_that_had_not_waited():
    turns = GilTurns()
    turns.new_loop().close()
    turns.invite_loop()
    turns.end("loop")
    turns.begin("engine")
    assert turns.turn == "engine"


def test_nobody_waits_for_a_loop_that_takes_no_part():
    turns = GilTurns()
    turns.invite_loop()
    turns.begin("engine")
    assert turns.turn == "engine"


def test_a_loop_has_its_turn_while_it_has_something_to_do():
    turns, seen = GilTurns(), []

    async def work():
        loop = asyncio.get_running_loop()
        seen.append(turns.turn)
        woken = asyncio.Event()

        def engine():
            turns.begin("engine")
            seen.append(turns.turn)
            turns.invite_loop()
            turns.end("engine")
            loop.call_soon_threadsafe(woken.set)

        thread = threading.Thread(target=engine)
        thread.start()
        await woken.wait()  # the loop has nothing to do now
        seen.append(turns.turn)
        thread.join()

    with asyncio.Runner(loop_factory=turns.new_loop) as runner:
        runner.run(asyncio.sleep(0.001))
        runner.run(work())
    assert seen[1:] == ["engine", "loop"]


def test_small_answers_are_sent_at_once():
    """With Nagle's algorithm every body would wait for the receipt of its head: 40 ms of each request."""
    listener = listen()

    async def serve(reader, writer):
        found.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, sock=listener.socket)
        async with server:
            reader, writer = await asyncio.open_connection(*listener.socket.getsockname())
            await reader.read()
            writer.close()

    found = []
    asyncio.run(run())
    assert found == [1]
