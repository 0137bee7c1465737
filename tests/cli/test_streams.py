"""Standard streams that are closed or without a reader are no error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

WEFT = [sys.executable, "-m", "weft"]
SMALL = ["train.steps=2", "model.hidden=4", "model.embedding=4"]


@contextmanager
def without_reader() -> Iterator[int]:
    """The writing end of a pipe whose reader has closed it, as `head` and `true` do."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def closing(*numbers: int) -> Callable[[], None]:
    return lambda: [os.close(number) for number in numbers] and None


@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["new", "lm"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(words):
    with without_reader() as pipe:
        done = subprocess.run([*WEFT, *words], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="a process elsewhere always has its three streams")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_no_file_gets_the_number_of_a_closed_stream(closed):
    """Messages of a compiler or of torch would be written into that file."""
    code = "from weft.cli.streams import *; prepare_streams(); sys.exit(open(os.devnull).fileno() <= 2)"
    assert subprocess.run([sys.executable, "-c", code], preexec_fn=closing(*closed)).returncode == 0


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_no_error(closed, weft, monkeypatch, labelled):
    """In Python a stream that was closed at the start is None."""
    weft("train", "classify", labelled, *SMALL, "--out", "run", "-q")
    monkeypatch.setattr(sys, closed, None)
    assert weft("predict", "run", *([] if closed == "stdin" else [labelled])).code == 0


def test_training_continues_when_its_messages_cannot_be_written(labelled, tmp_path):
    command = [*WEFT, "train", "classify", labelled, *SMALL, "--out", str(tmp_path / "run")]
    with without_reader() as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert (tmp_path / "run" / "manifest.json").exists()
