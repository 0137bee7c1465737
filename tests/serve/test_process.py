"""Real processes: several behind one port, an end under load that loses nothing, an end when asked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from weft.bench.serve.load import run_load
from weft.bench.serve.process import ServerProcess

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks of POSIX")


def serve(*words):
    return ServerProcess(["weft", "serve", *map(str, words), "--port", "0"], threads=1)


def get(url):
    with urllib.request.urlopen(url, timeout=150) as response:
        return response.read().decode()


def test_sigterm_under_load_loses_no_accepted_request_and_exits_with_0(runs):
    bodies = [{"inputs": ["one two three"], "beam": 4}, {"inputs": ["six"] * 3}]
    with serve(runs["numbers"], "--drain", "30") as server:

        async def run():
            load = asyncio.create_task(run_load(server.url, bodies, clients=8, seconds=2.0, again=True))
            await asyncio.sleep(1.0)
            server.process.send_signal(signal.SIGTERM)
            return await load

        found = asyncio.run(run())
        assert server.process.wait(60) == 0
    assert found.errors == []
    assert len(found.latencies) >= 8


SLOW = """
import runpy, sys, time
from weft.serve import models
from weft.serve.groups import BatchGroup

load, compute = models.load, BatchGroup._compute
models.load = lambda *words, **settings: (time.sleep(1.5), load(*words, **settings))[1]
BatchGroup._compute = lambda self, *words: (time.sleep(1.5), compute(self, *words))[1]
runpy.run_module("weft", run_name="__main__")
"""
"""A server whose models load slowly, and answer slowly."""


@pytest.fixture
def slow_server(runs, tmp_path):
    """slow_server(*options) -> the process and its address, before its models are loaded."""
    started = []

    def start(*options):
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
        command = [sys.executable, str(tmp_path / "slow.py"), "serve", str(runs["kinds"]), "--port", str(port)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=environment))
        return started[-1], f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ask(url, body=None):
    """Return the status, the body and the header Retry-After of a response; None where no connection is made."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response), None
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), error.headers["retry-after"]
    except (urllib.error.URLError, ConnectionError):
        return None


PREDICT = {"inputs": ["the red here"]}


def wait_for(url, found):
    """Ask until the answer is `found`, and return all answers that were there."""
    ends, said = time.monotonic() + 120, []
    while not said or said[-1] != found:
        assert time.monotonic() < ends, said[-5:]
        answer = ask(url)
        if answer is not None:
            said.append((answer[0], answer[1]["status"]))
        time.sleep(0.02)
    return said


@pytest.mark.parametrize("workers", [1, 2])
def test_probes_are_answered_while_models_are_loaded_and_while_requests_end(slow_server, workers):
    process, url = slow_server("--workers", str(workers))
    starting = wait_for(f"{url}/readyz", (503, "starting"))
    assert starting == [(503, "starting")]
    assert ask(f"{url}/healthz")[0] == 200
    status, body, after = ask(f"{url}/v1/predict", PREDICT)
    assert (status, after) == (503, "1")
    assert "being loaded" in body["error"]["message"]
    assert set(wait_for(f"{url}/readyz", (200, "ready"))) == {(503, "starting"), (200, "ready")}

    accepted = []
    clients = [threading.Thread(target=lambda: accepted.append(ask(f"{url}/v1/predict", PREDICT))) for _ in range(8)]
    for client in clients:
        client.start()
    time.sleep(0.7)
    process.send_signal(signal.SIGTERM)
    assert (503, "draining") in wait_for(f"{url}/readyz", (503, "draining"))
    assert ask(f"{url}/healthz")[0] == 200
    status, body, after = ask(f"{url}/v1/predict", PREDICT)
    assert (status, after) == (503, "1")
    assert "ending" in body["error"]["message"]
    for client in clients:
        client.join()
    assert [one[0] for one in accepted] == [200] * 8
    assert process.wait(30) == 0
    assert ask(f"{url}/healthz") is None


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_while_models_are_loaded_ends_the_server(slow_server, workers):
    process, url = slow_server("--workers", str(workers))
    wait_for(f"{url}/readyz", (503, "starting"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_a_drain_ends_with_its_time(slow_server):
    process, url = slow_server("--drain", "0.2")
    wait_for(f"{url}/readyz", (200, "ready"))
    with closing(socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))) as client:
        body = json.dumps(PREDICT)
        head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        client.sendall(f"POST /v1/predict HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 1


def test_workers_share_a_port_and_their_metrics_and_are_replaced(runs):
    with serve(runs["kinds"], "--workers", "2") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        before = set(children.read_text().split())
        assert len(before) == 2
        memory = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") for pid in before]
        first = re.search(r"^weft_resident_bytes (\S+)", get(f"{server.url}/metrics"), re.MULTILINE)
        assert float(first[1]) > 0.8 * sum(memory), "the process that answers counts the others too"
        found = asyncio.run(run_load(server.url, [{"inputs": ["the red here"]}], clients=6, seconds=1.0))
        assert found.errors == []
        metrics = get(f"{server.url}/metrics")
        counted = float(re.search(r'weft_requests_total\{route="/v1/predict",status="200"\} (\S+)', metrics)[1])
        assert counted == len(found.latencies), "any of the processes answers for all"
        os.kill(int(min(before)), signal.SIGKILL)
        ends = time.monotonic() + 60
        while len(now := set(children.read_text().split())) < 2 or min(before) in now:
            assert time.monotonic() < ends
            time.sleep(0.1)
        assert json.loads(get(f"{server.url}/healthz"))["status"] == "ok"
        assert server.end() == 0


def test_a_run_that_cannot_be_loaded_ends_all_workers(tmp_path):
    command = [sys.executable, "-m", "weft", "serve", str(tmp_path), "--workers", "2", "--port", "0"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "manifest.json" in found.stderr


def test_a_reload_that_is_asked_for_while_the_server_starts_does_not_end_it(runs, tmp_path):
    cell = "class Early(weft.nn.Cell):\n    def step(self, x, h):\n        return h, h\n"
    hang_up = "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n"
    (tmp_path / "early.py").write_text(f"import weft\n{hang_up}\n{cell}", encoding="utf-8")
    with serve(runs["kinds"], "--import", f"{tmp_path / 'early.py'}:Early") as server:
        assert json.loads(get(f"{server.url}/readyz"))["status"] == "ready"
        server.process.send_signal(signal.SIGHUP)
        assert json.loads(get(f"{server.url}/healthz"))["status"] == "ok"
        assert server.end() == 0


def test_every_line_of_standard_error_is_json(runs):
    with serve(runs["kinds"]) as server:
        assert server.end() == 0
        server.errors.seek(0)
        events = [json.loads(line)["event"] for line in server.errors.read().splitlines()]
    assert events == ["ready", "draining", "ended"]
