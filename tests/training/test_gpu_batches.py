"""On a GPU the default batch is larger, the rate follows it, and enough updates are left."""

from __future__ import annotations

import pytest

from weft.catalog import TASKS
from weft.config import fill
from weft.tasks import Facts
from weft.training.gpu_batches import CHARACTERS_PER_TOKEN, GPU_BATCH_TOKENS, MIN_UPDATES, fill_gpu

CPU = {"epochs": 10, "batch_tokens": 1024, "rate": 1e-3}


@pytest.mark.parametrize(
    ("characters", "batch_tokens", "rate"),
    [
        (150_000, 1024, 1e-3),  # 1,465 updates: none to spare
        (450_000, 2048, 1e-3 * 2**0.5),  # 4,395
        (900_000, 4096, 2e-3),  # 8,789
        (100_000_000, 16_384, 2e-3),  # as much as a GPU needs; the rate is bounded
    ],
)
def test_batch_and_rate_by_hand(characters, batch_tokens, rate):
    found = fill_gpu(CPU, Facts(1, characters, "cuda"), written={}, kind="char")
    assert found == {"epochs": 10, "batch_tokens": batch_tokens, "rate": pytest.approx(rate)}


def test_what_a_person_has_written_stays():
    facts = Facts(1, 100_000_000, "cuda")
    assert fill_gpu(CPU, facts, written={"batch_tokens": 512}, kind="char") == CPU
    assert fill_gpu(CPU, facts, written={"rate": 5e-4}, kind="char")["rate"] == CPU["rate"]
    one = fill_gpu(CPU, Facts(1, 2_100_000, "cuda"), written={"epochs": 2}, kind="char")
    assert one["batch_tokens"] == 2048, "two epochs of 2,050 updates"
    steps = fill_gpu(CPU, Facts(1, 100_000, "cuda"), written={"steps": 100}, kind="char")
    assert steps["batch_tokens"] == 4096, "however many updates there are, an epoch has twenty"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("characters", [10_000, 1_000_000, 100_000_000, 10_000_000_000])
def test_every_task_keeps_its_updates(task, characters):
    tree = {"task": task, "data": {"train": "x"}}
    cpu, gpu = (fill(tree, Facts(characters // 50, characters, device)) for device in ("cpu", "cuda"))
    tokens = characters / CHARACTERS_PER_TOKEN[gpu.text.kind]
    assert cpu.train.batch_tokens <= gpu.train.batch_tokens <= max(GPU_BATCH_TOKENS, cpu.train.batch_tokens)
    if gpu.train.batch_tokens > cpu.train.batch_tokens:
        assert gpu.train.epochs * tokens / gpu.train.batch_tokens >= MIN_UPDATES
        assert cpu.train.rate < gpu.train.rate <= 2 * cpu.train.rate
    else:
        assert gpu.train.rate == cpu.train.rate


def test_a_language_model_of_a_megabyte_of_characters_reads_large_batches_on_a_gpu():
    tree = {"task": "lm", "data": {"train": "x", "unit": "stream"}, "text": {"kind": "char"}}
    found = fill(tree | {"model": {"kind": "transformer"}}, Facts(16, 1_003_854, "cuda")).train
    assert (found.epochs, found.batch_tokens, found.rate) == (40, 16_384, 2e-3)
    assert (found.weight_decay, found.beta2) == (0.1, 0.99)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "radam"])
def test_what_suits_adamw_is_not_a_default_of_other_optimizers(optimizer):
    tree = {"task": "lm", "data": {"train": "x"}, "model": {"kind": "transformer"}, "train": {"optimizer": optimizer}}
    found = fill(tree, Facts(16, 1_000_000)).train
    assert (found.weight_decay, found.beta2) == (0.01, 0.999)
