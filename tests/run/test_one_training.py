"""Two trainings of one process would draw from the same random numbers, so the second is refused."""

from __future__ import annotations

import os
import threading
from importlib import import_module

import pytest

import weft
from weft.errors import RunError
from weft.run import train_run
from weft.run.folder import lock
from weft.run.folder.lock import one_training
from weft.training.progress import Watch

TREE = {"task": "classify", "data": {"train": "nowhere.tsv"}}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused() -> bool:
    """Whether a training would be refused now; one that is not fails for want of its file."""
    with pytest.raises(weft.errors.WeftError) as caught:
        weft.train(TREE, quiet=True)
    return "another training runs in this process" in str(caught.value)


def test_a_second_training_is_refused_while_one_runs():
    with one_training():
        assert refused()
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(refused()))
        thread.start()
        thread.join()
        assert found == [True]
    assert not refused()


def test_a_training_in_another_thread_is_seen(monkeypatch):
    """The real door: while one thread is inside of `train_run`, another one is refused."""
    inside, ended = threading.Event(), threading.Event()

    def stay(*_, **__):
        inside.set()
        ended.wait(30)
        raise RunError("ends here")

    def begin():
        with pytest.raises(RunError, match="ends here"):
            train_run(TREE, out=None, watch=Watch(quiet=True))

    with monkeypatch.context() as patch:
        patch.setattr(import_module("weft.run.train"), "_lead", stay)
        thread = threading.Thread(target=begin)
        thread.start()
        assert inside.wait(30)
    try:
        assert refused()
    finally:
        ended.set()
        thread.join()
    assert not refused()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, GeneratorExit])
def test_the_place_is_free_however_a_training_ends(error):
    with pytest.raises(error), one_training():
        raise error
    assert not refused()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks")
def test_a_forked_child_may_train():
    with one_training():
        child = os.fork()
        if child == 0:
            with one_training():
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert refused()
    assert not lock._one_training.locked()
