"""Too much to do, too little time, clients that go, runs that change: what is refused, given up and kept."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient, httpx
from tests.serve.conftest import ADDRESS, settings_of

from weft.serve import engine, groups, models
from weft.serve.groups import SearchGroup
from weft.serve.served import MAX_READ_SECONDS
from weft.serve.server import create_server
from weft.serve.settings import RequestLimits
from weft.serve.tickets import Outbox, Ticket

LONG = {"model": "words", "inputs": ["one"], "beam": 1, "sample": False, "min_length": 60, "max_length": 64}


def drive(app, run):
    """Run a coroutine with a client of the application inside its life."""

    async def inside():
        transport = httpx.ASGITransport(app=app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            return await run(client)

    return asyncio.run(inside())


@pytest.fixture
def held(monkeypatch):
    """Searches stand still until this event is set."""
    release, turn = threading.Event(), SearchGroup._advance

    def advance(self):
        release.wait(10)
        turn(self)

    monkeypatch.setattr(SearchGroup, "_advance", advance)
    yield release
    release.set()


def test_a_full_queue_says_when_to_try_again(runs, held):
    app = create_server(settings_of(runs, "words", max_queue=20, batch_tokens=1))
    service = app.state.service

    async def run(client):
        first = asyncio.create_task(client.post("/v1/predict", json=LONG | {"inputs": ["one"] * 20}))
        while not service.engine.groups:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        refused = await client.post("/v1/predict", json=LONG | {"inputs": ["two"] * 20})
        held.set()
        return (await first).status_code, refused

    first, refused = drive(app, run)
    assert first == 200
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["type"] == "overloaded_error"


def test_what_takes_too_long_is_given_up(runs, held):
    limits = RequestLimits(inputs=20, tokens=64, seconds=0.3)
    app = create_server(settings_of(runs, "words", limits=limits, batch_tokens=1))
    service = app.state.service

    async def run(client):
        running = asyncio.create_task(client.post("/v1/predict", json=LONG))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(client.post("/v1/predict", json=LONG))
        found = [await running, await waiting]
        held.set()
        while service.engine.groups:
            await asyncio.sleep(0.01)
        return found, (await client.post("/v1/predict", json=LONG)).status_code

    (running, waiting), after = drive(app, run)
    assert running.status_code == 504
    assert "took more than 0.3 s" in running.json()["error"]["message"]
    assert waiting.status_code == 503
    assert "retry-after" in waiting.headers
    assert after == 200


def test_the_work_of_a_client_who_goes_is_dropped(runs):
    """The connection is closed in the middle of a stream: the search ends, and nothing is left of it."""
    app = create_server(settings_of(runs, "words"))
    service = app.state.service
    body = json.dumps({key: value for key, value in (LONG | {"input": "one"}).items() if key != "inputs"}).encode()

    async def ask(after):
        """Read `after` parts of the response, then close."""
        sent, gone, parts = False, asyncio.Event(), 0

        async def receive():
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            nonlocal parts
            parts += message["type"] == "http.response.body"
            if parts >= after:
                gone.set()

        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        where = {"path": "/v1/stream", "raw_path": b"/v1/stream", "query_string": b"", "scheme": "http"}
        version = {"asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST"}
        ends = {"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9)}
        scope = {"type": "http", "headers": headers, **where, **version, **ends}
        await app(scope, receive, send)
        return parts

    async def run(client):
        parts = await asyncio.gather(*(ask(1 + number % 3) for number in range(12)))
        for _ in range(500):
            if not service.engine.groups:
                break
            await asyncio.sleep(0.01)
        return parts, (await client.get("/metrics")).text

    parts, metrics = drive(app, run)
    assert max(parts) < 60, "none has read its text to the end"
    assert not service.engine.groups
    assert service.engine.waiting == 0
    assert 'weft_rejected_total{reason="disconnect"} 12.0' in metrics
    assert 'weft_rejected_total{reason="deadline"} 0.0' in metrics


def test_a_stream_over_its_deadline_ends_with_an_error_and_is_counted_as_late(runs, held):
    limits = RequestLimits(inputs=20, tokens=64, seconds=0.2)
    app = create_server(settings_of(runs, "words", limits=limits))

    async def run(client):
        found = await client.post("/v1/stream", json={"input": "one", "max_length": 64})
        held.set()
        return found.text, (await client.get("/metrics")).text

    text, metrics = drive(app, run)
    assert "event: error" in text
    assert "took more than 0.2 s" in text
    assert 'weft_rejected_total{reason="deadline"} 1.0' in metrics
    assert 'weft_rejected_total{reason="disconnect"} 0.0' in metrics


def test_the_event_loop_is_woken_once_for_all_results_of_a_turn():
    async def run():
        loop, wakes, made = asyncio.get_running_loop(), [], []
        outbox, wake = Outbox(), loop.call_soon_threadsafe
        outbox.loop = SimpleNamespace(
            is_closed=loop.is_closed, call_soon_threadsafe=lambda f: (wakes.append(f), wake(f))
        )
        for number in range(5):
            outbox.post(made.append, number)
        await asyncio.sleep(0)
        assert made == []
        outbox.deliver()
        outbox.deliver()
        await asyncio.sleep(0)
        assert made == list(range(5))
        outbox.deliver()
        assert len(wakes) == 2, "with nothing to deliver nobody is woken"

    asyncio.run(run())


def test_sentences_join_a_search_together(runs, monkeypatch):
    """Half as many as run join at once; fewer wait for a few times as long as a read takes."""

    async def run():
        service = create_server(settings_of(runs, "numbers")).state.service
        service.engine.outbox, clock = Outbox(), SimpleNamespace(now=0.0)
        monkeypatch.setattr(groups, "time", SimpleNamespace(monotonic=lambda: clock.now))
        served = service.models.pick("numbers")
        group = None

        def ask(*texts):
            nonlocal group
            settings, jobs = service.to_predict(served, texts, {"min_length": 60, "max_length": 64})
            group = group or SearchGroup(settings, batch_tokens=4096, on_batch=lambda count: None)
            for job in jobs:
                job.ticket = Ticket(len(jobs), service.engine.outbox, limits=service.limits)
            group.queue.extend(jobs)

        def turn():
            group._admit()
            return len(group.jobs)

        ask("one", "two", "three", "four")
        assert turn() == 4
        served.read_seconds = 0.01
        ask("five")
        assert turn() == 4
        clock.now += 0.03
        assert turn() == 4
        ask("six")
        assert turn() == 6, "half as many as run"
        served.read_seconds = 0.01
        ask("one")
        clock.now += 0.039
        assert turn() == 6
        clock.now += 0.002
        assert turn() == 7, "it has waited for four reads"
        group._fail(RuntimeError())

    asyncio.run(run())


def test_a_long_first_read_is_no_measure(runs):
    served = create_server(settings_of(runs, "numbers")).state.service.models.pick("numbers")
    served.note_read(3.0)
    assert served.read_seconds == MAX_READ_SECONDS
    served.note_read(0.004)
    assert served.read_seconds == 0.004
    served.note_read(0.02)
    assert 0.004 < served.read_seconds < 0.005


def test_slots_are_opened_for_as_many_as_ran_together_of_late(runs):
    served = create_server(settings_of(runs, "numbers")).state.service.models.pick("numbers")
    assert served.peak == 0
    for count in (3, 40, 2):
        served.note_together(count)
    assert 35 < served.peak <= 40
    for _ in range(300):
        served.note_together(1)
    assert round(served.peak) == 1


def test_a_run_that_is_written_anew_is_loaded_and_no_request_is_lost(runs, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(runs["kinds"], folder)
    app = create_server(settings_of({"model": folder}, reload_seconds=0.05))
    service = app.state.service

    async def run(client):
        statuses, stop = [], asyncio.Event()

        async def ask():
            while not stop.is_set():
                response = await client.post("/v1/predict", json={"inputs": ["one two"]})
                statuses.append((response.status_code, "score" in response.json()["predictions"][0]))

        clients = [asyncio.create_task(ask()) for _ in range(4)]
        await asyncio.sleep(0.1)
        before = service.models.served["model"]
        shutil.rmtree(folder)
        await asyncio.sleep(0.15)
        assert service.models.served["model"] is before, "the old model stays while there is no other"
        shutil.copytree(runs["numbers"], tmp_path / "new")
        (tmp_path / "new").rename(folder)
        for _ in range(1000):
            if service.models.served["model"] is not before:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        stop.set()
        await asyncio.gather(*clients)
        return statuses, (await client.get("/metrics")).text

    statuses, metrics = drive(app, run)
    assert {status for status, _ in statuses} == {200}
    assert {translated for _, translated in statuses} == {True, False}, "both models have answered"
    assert 'weft_reloads_total{model="model",result="done"} 1.0' in metrics


def test_a_reload_can_be_asked_for(runs):
    with TestClient(create_server(settings_of(runs, "kinds")), base_url=ADDRESS) as client:
        assert client.post("/v1/reload", json={}).json() == {"reloaded": []}
        assert client.post("/v1/reload", json={"model": "no"}).status_code == 404


@pytest.mark.parametrize("changed", [True, False], ids=["its manifest is another", "its manifest is the same"])
def test_a_reload_names_what_cannot_be_loaded(runs, tmp_path, changed):
    copies = {name: shutil.copytree(runs[name], tmp_path / name) for name in ("kinds", "words")}
    with TestClient(create_server(settings_of(copies)), base_url=ADDRESS) as client:
        if changed:
            manifest = copies["kinds"] / "manifest.json"
            manifest.write_text(manifest.read_text() + " ")
        (copies["kinds"] / "model.safetensors").write_bytes(b"")
        (copies["words"] / "manifest.json").write_text((copies["words"] / "manifest.json").read_text() + " ")
        assert client.post("/v1/reload", json={"model": "words"}).json() == {"reloaded": ["words"]}
        for _ in range(2):
            response = client.post("/v1/reload", json={})
            assert response.status_code == 500
            found = response.json()
            assert found["reloaded"] == []
            assert list(found["failed"]) == ["kinds"]
            assert found["error"]["message"].startswith('"kinds" cannot be loaded')
            assert found["failed"]["kinds"] in found["error"]["message"]
            assert str(tmp_path) not in response.text
        assert client.post("/v1/predict", json={"model": "kinds", "inputs": ["the red"]}).status_code == 200
        shutil.rmtree(copies["kinds"])
        shutil.copytree(runs["kinds"], copies["kinds"])
        assert client.post("/v1/reload", json={}).json() == {"reloaded": []}, "the folder is as it was"


@pytest.mark.parametrize("kind", [KeyError, TypeError, AssertionError])
def test_a_run_that_fails_in_any_way_keeps_the_old_model_and_the_others(runs, tmp_path, monkeypatch, kind):
    copies = {name: shutil.copytree(runs[name], tmp_path / name) for name in ("kinds", "words")}
    load = models.load

    def fails(folder, **settings):
        if folder == copies["kinds"]:
            raise kind("a class of the user")
        return load(folder, **settings)

    with TestClient(create_server(settings_of(copies)), base_url=ADDRESS) as client:
        monkeypatch.setattr(models, "load", fails)
        for folder in copies.values():
            (folder / "manifest.json").write_text((folder / "manifest.json").read_text() + " ")
        found = client.post("/v1/reload", json={}).json()
        assert (found["reloaded"], found["failed"]) == (["words"], {"kinds": kind.__name__})
        assert client.post("/v1/predict", json={"model": "kinds", "inputs": ["the red here"]}).status_code == 200


def test_logs_have_no_texts_unless_asked(runs, capfd):
    from weft.serve.logs import start_logging

    for wanted in (False, True):
        start_logging()
        with TestClient(create_server(settings_of(runs, "kinds", log_text=wanted)), base_url=ADDRESS) as client:
            client.post("/v1/predict", json={"inputs": ["a secret text"]})
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
        (line,) = [line for line in lines if line["event"] == "request"]
        assert (line["route"], line["status"], line["inputs"]) == ("/v1/predict", 200, 1)
        assert ("a secret text" in json.dumps(lines)) == wanted


def test_open_requests_are_bounded(runs, monkeypatch):
    from weft.serve import gate

    monkeypatch.setattr(gate, "MAX_OPEN_REQUESTS", 0)
    with TestClient(create_server(settings_of(runs, "kinds")), base_url=ADDRESS) as client:
        response = client.post("/v1/predict", json={"inputs": ["the red here"]})
        assert response.status_code == 503
        assert response.json()["error"]["type"] == "overloaded_error"
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("options", [{}, {"beam": 3}], ids=["greedy", "beam"])
def test_a_long_input_of_one_model_holds_no_other(runs, monkeypatch, options):
    monkeypatch.setattr(engine, "MAX_SHORT_SIZE", 100)
    read, began, ends = SearchGroup._read, threading.Event(), threading.Event()

    def slowly(group, jobs, examples):
        if any(job.record.size > 100 for job in jobs):
            began.set()
            assert ends.wait(30)
        read(group, jobs, examples)

    monkeypatch.setattr(SearchGroup, "_read", slowly)
    long, short = "one two three " * 20, "one two"
    with TestClient(create_server(settings_of(runs)), base_url=ADDRESS) as client:

        def ask(text):
            found = client.post("/v1/predict", json={"model": "numbers", "inputs": [text], **options})
            return found.json()["predictions"][0]["text"]

        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(ask, long)
            assert began.wait(30)
            others = [pool.submit(ask, short), pool.submit(ask, long)]
            for _ in range(3):
                assert client.post("/v1/predict", json={"model": "kinds", "inputs": ["the red"]}).status_code == 200
                assert client.post("/v1/completions", json={"model": "words", "prompt": "one"}).status_code == 200
            assert not first.done()
            assert not any(other.done() for other in others), "one thread computes for a model at a time"
            ends.set()
            assert first.result() == others[1].result() == ask(long)
            assert others[0].result() == ask(short)


def test_a_server_of_one_model_computes_in_one_thread(runs):
    with TestClient(create_server(settings_of(runs, "numbers")), base_url=ADDRESS) as client:
        assert client.app.state.service.engine.long_turns is None
