"""Batches with Ray: two nodes on this machine, a kill in the middle, and the answers of weft predict in the end."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.batch.conftest import read_rows, write_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'ray[data]'"),
    pytest.mark.timeout(900),
]

TWO_NODES = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print("ADDRESS", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**os.environ, **quiet, "HOME": str(tmp_path_factory.mktemp("home")), "RAY_enable_metrics_collection": "0"}


@pytest.fixture(scope="module")
def address(environment: dict[str, str]) -> Iterator[str]:
    """A cluster of two nodes with one core each, so that two actors are on two nodes."""
    words = [sys.executable, "-c", TWO_NODES]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        yield next(line.split()[1] for line in cluster.stdout if line.startswith("ADDRESS"))
        cluster.stdin.close()


def command(run: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "weft", "predict", run, "in.jsonl", *words]


def test_two_nodes_killed_and_resumed_answer_as_one_process_does(translator, address, environment, tmp_path):
    write_rows(tmp_path / "in.jsonl", ({"id": number, "source": f"one two {number % 37}"} for number in range(1200)))
    plain = subprocess.run(
        command(translator, "--format", "jsonl", "--json", "--beam", "3"), cwd=tmp_path, capture_output=True, check=True
    )
    words = ("--beam", "3", "--out", "out.jsonl", "--engine", "ray", "--address", address, "--actors", "2")
    words = (*words, "--part-rows", "10")
    first = subprocess.Popen(command(translator, *words), cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    folder = tmp_path / "out.jsonl.job"
    while len(list(folder.glob("part-*"))) < 5:
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = {path.name: path.read_bytes() for path in folder.glob("part-*")}
    assert 5 <= len(done) < 120, "the kill came in the middle"
    assert not (tmp_path / "out.jsonl").exists()
    second = subprocess.run(command(translator, *words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert f"1,200 rows; {len(done)} of 120 parts had been computed before" in second.stderr
    found = read_rows(tmp_path / "out.jsonl")
    assert [row["id"] for row in found] == list(range(1200))
    for row, line in zip(found, plain.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        assert row["source"] == answer["source"]
        assert row["text"] == answer["text"]
        assert row["score"] == pytest.approx(answer["score"], abs=1e-5)


def test_a_bad_row_stops_an_actor_with_its_own_error(translator, environment, tmp_path):
    write_rows(tmp_path / "in.jsonl", [*({"source": "one"} for _ in range(20)), "{", {"source": "two"}])
    words = ("--out", "out.jsonl", "--engine", "ray", "--actors", "1", "--part-rows", "5")
    outcome = subprocess.run(command(translator, *words), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert outcome.returncode == 2
    assert "error in.jsonl:21: not JSON" in outcome.stderr
    assert Path(tmp_path / "out.jsonl.job").is_dir()
