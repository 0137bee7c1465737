"""Real processes: several behind one port, an end under load that loses nothing, an end when asked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
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


def test_workers_share_a_port_and_their_metrics_and_are_replaced(runs):
    with serve(runs["kinds"], "--workers", "2") as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        before = set(children.read_text().split())
        assert len(before) == 2
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
