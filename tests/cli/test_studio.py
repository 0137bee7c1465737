"""weft studio: what it refuses, its start as a process, and its end."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys

import pytest

from weft.extras import Extra


def test_a_missing_extra_is_one_line(weft, monkeypatch):
    monkeypatch.setattr(Extra, "found", lambda self: {"fastapi": None, "uvicorn": "1.0"})
    found = weft("studio")
    assert found.code == 2
    assert found.err.startswith("error weft studio: needs fastapi (pip install ")
    assert found.err.count("\n") == 1


def test_a_path_must_be_a_folder(weft):
    found = weft("studio", "nothing", "--no-browser")
    assert found.code == 2
    assert "nothing: is no folder" in found.err


def test_a_wrong_import_is_told_before_the_start(weft):
    found = weft("studio", "--no-browser", "--import", "nothing.py:Cell")
    assert found.code == 2
    assert "no such file" in found.err


def test_export_needs_runs(weft, tmp_path, extras):
    (tmp_path / "runs").mkdir()
    found = weft("studio", "--export", "pages")
    assert "there are no runs" in found.err
    assert not (tmp_path / "pages").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_studio_prints_its_address_answers_and_ends(tmp_path, how):
    command = [sys.executable, "-m", "weft", "studio", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/#token=[\w-]{32}", line)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/runs")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"[]")
        connection.request("GET", "/api/runs", headers={"Host": "evil.example"})
        assert connection.getresponse().status == 421
        process.send_signal(how)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert process.returncode in (0, -signal.SIGTERM)
