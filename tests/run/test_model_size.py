"""A model that memory cannot hold is refused by its sizes, before the data is read and before anything is built."""

from __future__ import annotations

import random

import pytest
import torch

import weft
from weft import memory
from weft.catalog import TASKS
from weft.config import validate
from weft.errors import ConfigError, RunError
from weft.run import model_size
from weft.run.dry_run import dry_run
from weft.run.model_size import SMALLEST_CODEC, check_fits, check_loads, measure, meta_device
from weft.run.prepare import prepare
from weft.tasks import Codec
from weft.training import TrainConfig, build_optimizer

LARGE = {"kind": "transformer", "layers": 8, "width": 100_000, "heads": 500}


def config(model: dict, **train):
    return validate({"task": "lm", "data": {"train": "nowhere.txt"}, "model": model, "train": train})


@pytest.fixture
def small(monkeypatch):
    """A machine of a million bytes."""
    monkeypatch.setattr(model_size, "machine_memory", lambda: memory.MachineMemory(1_000_000, 1_000_000))


def test_it_is_told_before_the_data_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {"task": "lm", "data": {"train": "nowhere.txt"}, "model": LARGE}
    with pytest.raises(ConfigError, match=r"^\[model\]: weights, gradients and 2 moments of .* take [\d,]+ GiB"):
        weft.train(tree, quiet=True)


@pytest.mark.parametrize(
    ("kind", "momentum", "moments"), [("adamw", 0.9, 2), ("radam", 0.9, 2), ("sgd", 0.9, 1), ("sgd", 0.0, 0)]
)
def test_the_moments_are_those_that_the_optimizer_keeps(kind, momentum, moments):
    layer = torch.nn.Linear(3, 4)
    optimizer = build_optimizer(layer, kind=kind, rate=0.1, weight_decay=0.0, momentum=momentum)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    kept = sum(value.numel() for state in optimizer.state.values() for value in state.values() if value.dim())
    assert kept == moments * 16
    settings = {} if momentum == 0.9 else {"momentum": momentum}
    assert model_size.moments_of(TrainConfig(optimizer=kind, **settings)) == moments


def test_the_estimate_is_that_of_the_built_model():
    with meta_device():
        meta = TASKS["lm"].build(config({"embedding": 8, "hidden": 8}).model, SMALLEST_CODEC)
    model = TASKS["lm"].build(config({"embedding": 8, "hidden": 8}).model, SMALLEST_CODEC)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert measure(meta) == (count, 4 * count, 4 * count)


def test_what_just_fits_is_not_refused(small):
    """62,500 numbers of 4 bytes, with a gradient and two moments each, are a million bytes."""
    with meta_device():
        size = measure(TASKS["lm"].build(config({"embedding": 1, "hidden": 120}).model, SMALLEST_CODEC)).parameters
    assert 58_000 < size < 62_500
    check_fits(config({"embedding": 1, "hidden": 120}))
    with pytest.raises(ConfigError, match="moments"):
        check_fits(config({"embedding": 1, "hidden": 130}))
    check_fits(config({"embedding": 1, "hidden": 130}, optimizer="sgd"))


def test_what_is_frozen_needs_no_moments(small):
    frozen = config({"embedding": 1, "hidden": 200}, freeze=["decoder.*"])
    check_fits(frozen)
    check_fits(frozen, SMALLEST_CODEC)
    with pytest.raises(ConfigError, match=r'train\.freeze = \["decode\.\*"\]: no parameter has such a name'):
        check_fits(config({"embedding": 1, "hidden": 8}, freeze=["decode.*"]), SMALLEST_CODEC)


def test_the_vocabulary_counts_once_the_data_is_read(small, tmp_path):
    words = [f"{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}{n}" for n in range(4000)]
    (tmp_path / "a.txt").write_text("\n".join(words), encoding="utf-8")
    tree = {
        "task": "lm",
        "data": {"train": str(tmp_path / "a.txt")},
        "text": {"kind": "word", "min_count": 1},
        "model": {"embedding": 64, "hidden": 8},
    }
    prepared = prepare(tree)
    with pytest.raises(ConfigError, match=r"this machine has 0\.0 GiB"):
        dry_run(prepared)


def test_a_run_whose_weights_no_memory_holds_is_not_loaded(small):
    model = torch.nn.Linear(500, 500, device="meta")
    with pytest.raises(RunError, match="runs/large: its weights take"):
        check_loads(model, torch.device("cpu"), where="runs/large")
    check_loads(torch.nn.Linear(400, 500, device="meta"), torch.device("cpu"), where="runs/small")


def test_nothing_is_drawn_and_nothing_known_is_nothing_refused(monkeypatch):
    torch.manual_seed(0)
    random.seed(0)
    before = torch.get_rng_state(), random.getstate()
    monkeypatch.setattr(model_size, "machine_memory", lambda: None)
    check_fits(config(LARGE))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_a_cell_that_cannot_be_outlined_is_left_to_the_building():
    class Odd(weft.nn.Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.scale = float(torch.ones(1))  # needs numbers

        def step(self, x, h):
            return h, h

    tree = {"task": "lm", "data": {"train": "nowhere.txt"}, "model": {"cell": "odd"}}
    check_fits(validate(tree, cells={"odd": Odd}))


@pytest.mark.parametrize("task", TASKS)
def test_a_model_of_every_task_can_be_outlined_before_there_are_tokens(task):
    made = validate({"task": task, "data": {"train": "nowhere"}})
    with meta_device():
        assert isinstance(SMALLEST_CODEC, Codec)
        assert measure(TASKS[task].network(made, SMALLEST_CODEC)).parameters >= 200  # word vectors of one word
