"""Event streams and workers: bounded, ended when the reader leaves, never two computations of one key at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from weft.serve import Event, Feed, HTTPError, Workers, event_stream
from weft.serve import events as events_module


async def each(*items):
    for item in items:
        yield item


async def collect(response):
    return b"".join([part async for part in response.body_iterator]).decode()


def test_events_are_sent_as_a_browser_reads_them():
    found = asyncio.run(collect(event_stream(each(Event("piece", {"text": "a\nb"}, 7), Event("done", {})))))
    assert found == 'id: 7\nevent: piece\ndata: {"text": "a\\nb"}\n\nevent: done\ndata: {}\n\n'


def test_a_silent_stream_has_heartbeats_and_an_end():
    async def silent():
        await asyncio.Event().wait()
        yield Event("never", None)

    found = asyncio.run(collect(event_stream(silent(), heartbeat=0.01, most=0.05)))
    assert found.startswith(": heartbeat\n\n")
    assert "never" not in found


def test_a_reader_who_leaves_closes_the_source():
    closed = []

    async def source():
        try:
            while True:
                yield Event("tick", 1)
        finally:
            closed.append(True)

    async def leave():
        body = event_stream(source()).body_iterator
        await anext(body)
        await body.aclose()

    asyncio.run(leave())
    assert closed == [True]
    assert events_module._open == 0


def test_open_streams_are_limited(monkeypatch):
    monkeypatch.setattr(events_module, "_open", events_module.MAX_STREAMS)
    with pytest.raises(HTTPError) as raised:
        event_stream(each())
    assert raised.value.status == 503


def test_a_feed_reaches_readers_of_other_threads_and_those_who_come_later():
    feed = Feed(capacity=3)

    async def follow(after):
        return [(event.number, event.data) async for event in feed.follow(after)]

    def publish():
        for number in range(5):
            feed.publish("number", number)
        feed.close()

    async def read():
        reader = asyncio.create_task(follow(0))
        await asyncio.sleep(0)
        threading.Thread(target=publish).start()
        return await reader

    assert asyncio.run(read())[-1] == (5, 4)
    assert asyncio.run(follow(0)) == [(3, 2), (4, 3), (5, 4)]
    assert asyncio.run(follow(4)) == [(5, 4)]
    feed.publish("late", 1)
    assert asyncio.run(follow(5)) == []


def test_computations_of_one_key_never_overlap_and_those_of_others_are_few():
    active: dict[str, int] = {}
    most = {"key": 0, "all": 0}
    lock = threading.Lock()
    meet = threading.Barrier(2, timeout=10)

    def compute(key):
        with lock:
            active[key] = active.get(key, 0) + 1
            most["key"] = max(most["key"], active[key])
            most["all"] = max(most["all"], sum(active.values()))
        meet.wait()  # each pair of computations is of two keys
        with lock:
            active[key] -= 1
        return key

    async def run():
        workers = Workers(running=2)
        return await asyncio.gather(*(workers.run(key, lambda key=key: compute(key)) for key in "ababab"))

    assert asyncio.run(run()) == list("ababab")
    assert most == {"key": 1, "all": 2}


def test_too_many_waiting_are_refused_and_slow_ones_answered_in_time():
    release = threading.Event()

    async def run():
        workers = Workers(running=1, waiting=1, seconds=0.05)
        slow = [asyncio.create_task(workers.run("a", lambda: release.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        refused = asyncio.create_task(workers.run("b", lambda: 1))
        found = await asyncio.gather(*slow, refused, return_exceptions=True)
        release.set()
        return [error.status for error in found]

    assert asyncio.run(run()) == [504, 504, 503]


def test_an_error_of_a_computation_is_that_of_the_caller():
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Workers().run("a", lambda: 1 / 0))


def test_an_iterator_in_threads_is_closed_when_its_reader_leaves():
    closed = []

    def numbers():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    async def read():
        workers = Workers(running=1)
        items = workers.iterate("a", numbers)
        first = [await anext(items), await anext(items)]
        await items.aclose()
        return first, await workers.run("a", lambda: "free")

    assert asyncio.run(read()) == ([0, 1], "free")
    assert closed == [True]
