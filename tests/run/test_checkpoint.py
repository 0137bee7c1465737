"""Checkpoints on disk: whole or not there, checked, the previous one kept; what they hold comes back bit by bit."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from weft.errors import Fault, RunError
from weft.run.folder.checkpoint import Checkpoints, read_state, write_state
from weft.run.folder.manifest import hash_file, write_manifest
from weft.run.train_state import OptimizerState, RandomState
from weft.training import OPTIMIZERS, build_optimizer


def save(folder, state):
    """The files of a checkpoint's state, with their manifest."""
    write_state(folder, state)
    write_manifest(folder, {path.name: hash_file(path) for path in folder.glob("state.*")})


class Crash(BaseException):
    """The process is gone: nothing after this runs."""


def fill(text):
    def write(folder):
        (folder / "a.txt").write_text(text, encoding="utf-8")
        (folder / "b.txt").write_text(text * 2, encoding="utf-8")

    return write


def test_the_previous_checkpoint_stays_and_older_ones_go(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest().path is None
    for step in (5, 10, 100):
        checkpoints.save(step, fill(str(step)))
    assert checkpoints.steps() == [10, 100]
    assert checkpoints.newest().path == tmp_path / "checkpoints" / "100"
    checkpoints.keep(1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["100"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "no manifest"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, damage):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, fill("one"))
    checkpoints.save(2, fill("two"))
    broken = tmp_path / "checkpoints" / "2"
    match damage:
        case "truncate":
            os.truncate(broken / "a.txt", 1)
        case "flip":
            (broken / "a.txt").write_bytes(b"twp")
        case "remove":
            (broken / "b.txt").unlink()
        case _:
            (broken / "manifest.json").unlink()
    found = checkpoints.newest()
    assert found.path == tmp_path / "checkpoints" / "1"
    assert len(found.notes) == 1
    assert found.notes[0].startswith("checkpoint 2 is left out")
    checkpoints.save(2, fill("two"))
    assert checkpoints.newest().path == broken, "it is written again"
    shutil.rmtree(tmp_path / "checkpoints" / "1")
    os.truncate(broken / "a.txt", 1)
    with pytest.raises(RunError, match="no checkpoint is whole"):
        checkpoints.newest()


def test_a_crash_at_any_call_leaves_the_last_checkpoint_or_the_new_one(tmp_path, monkeypatch):
    """Every call that changes the disk is, in turn, the one at which the process dies, before and after its effect."""
    outcomes = []
    for late in (False, True):
        for fatal in range(200):
            folder = tmp_path / f"{late}-{fatal}"
            folder.mkdir()
            checkpoints = Checkpoints(folder)
            for step in (1, 2):
                checkpoints.save(step, fill(str(step)))
            calls = 0
            with monkeypatch.context() as patch:

                def dying(original, fatal=fatal, late=late):
                    def call(*arguments, **options):
                        nonlocal calls
                        calls += 1
                        if calls - 1 == fatal and not late:
                            raise Crash
                        if calls - 1 > fatal:
                            raise Crash  # whatever cleans up in a living process does not run in a dead one
                        result = original(*arguments, **options)
                        if calls - 1 == fatal:
                            raise Crash
                        return result

                    return call

                for name in ("mkdir", "write_text", "replace", "unlink"):
                    patch.setattr(Path, name, dying(getattr(Path, name)))
                for owner, name in ((os, "fsync"), (shutil, "rmtree")):
                    patch.setattr(owner, name, dying(getattr(owner, name)))
                try:
                    checkpoints.save(3, fill("3"))
                    over = True
                except Crash:
                    over = False
            checkpoints.clean()
            path = checkpoints.newest().path
            assert path is not None
            assert path.name in ("2", "3")
            assert (path / "a.txt").read_text(encoding="utf-8") == path.name
            assert not list((folder / "checkpoints").glob(".*"))
            outcomes.append(path.name)
            if over:
                break
        else:
            pytest.fail("saving never came to its end")
    assert outcomes.count("2") > 10
    assert outcomes.count("3") > 2


def test_a_full_disk_names_the_checkpoint_that_is_left(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, fill("one"))

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Fault, match=r"No space left on device \(checkpoint 1 is whole: make room, then go on"):
        checkpoints.save(2, fill("two"))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["1"]
    assert checkpoints.newest().path == tmp_path / "checkpoints" / "1"


def test_a_tree_of_values_and_tensors_comes_back(tmp_path):
    shared = torch.arange(6.0)
    state = {
        "number": 3,
        "score": 0.1 + 0.2,
        "nothing": None,
        "flags": [True, False],
        "carried": (shared[:2], [(shared[2:], torch.tensor(7))], ()),
        "half": torch.tensor([1.5, float("inf")], dtype=torch.bfloat16),
        "turned": torch.arange(6).view(2, 3).t(),
    }
    save(tmp_path, state)
    found = read_state(tmp_path)
    assert {name: found[name] for name in ("number", "score", "nothing", "flags")} == {
        name: state[name] for name in ("number", "score", "nothing", "flags")
    }
    first, [(second, third)], empty = found["carried"]
    assert (first.tolist(), second.tolist(), third.item(), empty) == ([0, 1], [2, 3, 4, 5], 7, ())
    assert isinstance(found["carried"], tuple)
    for name in ("half", "turned"):
        assert found[name].dtype == state[name].dtype
        assert torch.equal(found[name], state[name])


def test_chance_goes_on_where_it_was(tmp_path):
    def draw():
        return random.random(), float(np.random.standard_normal()), torch.rand(3).tolist()

    draw()
    save(tmp_path, RandomState().state())
    expected = [draw() for _ in range(3)]
    RandomState().restore(read_state(tmp_path))
    assert [draw() for _ in range(3)] == expected


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_as_if_it_had_not_stopped(kind, tmp_path):
    def build():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        model[0].bias.requires_grad_(False)
        return model, build_optimizer(model, kind=kind, rate=0.1, weight_decay=0.01)

    def learn(model, optimizer, seeds):
        for seed in seeds:
            x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

    whole, optimizer = build()
    learn(whole, optimizer, range(6))
    first, optimizer = build()
    learn(first, optimizer, range(4))
    save(tmp_path, OptimizerState(first, optimizer).state())
    again, optimizer = build()
    again.load_state_dict(first.state_dict())
    OptimizerState(again, optimizer).restore(read_state(tmp_path))
    learn(again, optimizer, range(4, 6))
    for name, weight in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)
