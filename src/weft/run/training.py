"""Training from prepared data to a run folder, as a stream of events."""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weft.config import Config
from weft.data import Batches, Examples, PackedBatches
from weft.errors import ConfigError, did_you_mean
from weft.evaluate import evaluate
from weft.run.preparation import Prepared
from weft.run.save import save_report, save_run
from weft.tasks import Batch, Task
from weft.training import (
    SCHEDULES,
    Best,
    Ended,
    Event,
    Interrupt,
    Measuring,
    Started,
    Step,
    Validated,
    ahead,
    build_optimizer,
    choose_device,
    compile_model,
    keep_memory,
    set_seed,
    set_threads,
    steps,
)
from weft.version import __version__

EVALUATE_EVERY = 1000
"""Updates after which a model is validated even if the epoch is longer."""

WARMUP = 100
"""Updates over which the rate rises where nothing is said about it, in a run that is long enough."""

LOWER_IS_BETTER = ("loss", "perplexity", "bits_per_character")


def train_events(prepared: Prepared, folder: Path) -> Iterator[Event]:
    """Train, keep the best model so far in the folder, score it at the end. Yields all that happens."""
    config, task, settings = prepared.config, prepared.task, prepared.config.train
    set_seed(config.seed)
    set_threads(settings.threads)
    keep_memory()
    device = choose_device(settings.device)
    model = task.build(config.model, task.codec).to(device)
    batches = build_batches(model, prepared.train, batch_tokens=settings.batch_tokens, seed=config.seed)
    per_epoch = len(batches.epoch(0))
    total = settings.steps or (settings.epochs or 1) * per_epoch
    every = settings.evaluate_every or min(per_epoch, EVALUATE_EVERY)
    compilation = compile_model(model, settings.compile, device=device, updates=total)
    yield Started(
        task=task.name,
        examples=len(prepared.train),
        valid=len(prepared.valid),
        parameters=count_parameters(model),
        steps=total,
        steps_per_epoch=per_epoch,
        device=describe(device),
        notes=(*prepared.notes, *compilation.notes),
    )
    metric = settings.metric or task.metric
    best = Best(lower_is_better=metric in LOWER_IS_BETTER, patience=settings.patience)
    began, tokens, reason = time.monotonic(), 0, "all updates done"
    with Interrupt() as interrupt:
        for step in learn(task, model, prepared.train, batches, config=config, total=total):
            tokens += step.tokens
            yield step
            if step.number % every == 0 or step.number == total or interrupt.signal:
                yield Measuring("validating")
                with compilation.measuring():
                    scores = evaluate(task, model, prepared.valid, decode=config.decode.greedy()).metrics
                if better := best.offer(pick(scores, metric), step.number, model):
                    save_run(folder, config, task.codec, model)
                yield Validated(step.number, scores, better)
            if interrupt.signal:
                reason = f"stopped by {signal.Signals(interrupt.signal).name}"
            elif best.stale:
                reason = f"no better {metric} for {settings.patience} validations"
            elif step.number < total:
                continue
            break
        seconds = time.monotonic() - began
        yield Measuring("measuring the best model")
        best.restore(model)
        facts = {
            "parameters": count_parameters(model),
            "seconds": round(seconds, 1),
            "tokens_per_second": round(tokens / max(seconds, 1e-9)),
            "steps": step.number,
            "best_step": best.step,
            "ended": reason,
            "seed": config.seed,
            "versions": versions(),
        }
        with compilation.measuring():
            report = score(prepared, model, complete=not interrupt.signal)
        save_report(folder, config, report | facts)
    yield Ended(step.number, reason, interrupt.signal)


def learn(
    task: Task, model: nn.Module, examples: Examples, batches: Batches | PackedBatches, *, config: Config, total: int
) -> Iterator[Step]:
    """The loop with the optimizer and schedule of a configuration."""
    settings = config.train
    device = next(model.parameters()).device
    warmup = min(WARMUP, total // 4) if settings.warmup is None else settings.warmup
    optimizer = build_optimizer(
        model, kind=settings.optimizer, rate=settings.rate, weight_decay=settings.weight_decay, beta2=settings.beta2
    )
    made = stream(task, examples, batches)
    # A processor that computes has no core to spare for a thread that makes batches.
    with closing(ahead(made, device) if device.type == "cuda" else made) as ready:
        yield from steps(
            model,
            task,
            ready,
            optimizer=optimizer,
            schedule=SCHEDULES[settings.schedule](warmup, total),
            clip=settings.clip,
            label_smoothing=settings.label_smoothing,
            precision=settings.precision,
            captured=isinstance(batches, PackedBatches) and settings.compile is not False,
        )


def build_batches(model: nn.Module, examples: Examples, *, batch_tokens: int, seed: int = 0) -> Batches | PackedBatches:
    """Packed for a transformer on a GPU, which has kernels for rows of different lengths; elsewhere padded."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    kind = PackedBatches if on_gpu and getattr(model, "packs", False) else Batches
    return kind(examples.lengths, batch_tokens=batch_tokens, seed=seed)


def stream(task: Task, examples: Examples, batches: Batches | PackedBatches) -> Generator[Batch, None, None]:
    """Batches without end, epoch after epoch, each in its own order."""
    for epoch in count():
        for rows in batches.epoch(epoch):
            if isinstance(batches, PackedBatches):
                yield task.collate(examples, rows, packed=True, room=batches.room(rows))
            else:
                yield task.collate(examples, rows)


def score(prepared: Prepared, model: nn.Module, *, complete: bool) -> dict[str, Any]:
    """The scores of the finished model, decoded as the configuration says; the test data is looked at only here."""
    report: dict[str, Any] = {}
    parts = {"valid": prepared.valid, "test": prepared.test if complete else None}
    for part, examples in parts.items():
        if examples is not None:
            found = evaluate(prepared.task, model, examples, decode=prepared.config.decode)
            report[part] = found.metrics
            report.setdefault("details", {})[part] = found.details
    return report


def pick(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise ConfigError("is not measured here", where=f'train.metric = "{name}"', cure=did_you_mean(name, metrics))
    return metrics[name]


def count_parameters(model: nn.Module) -> int:
    """Numbers that training may change; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    return {"weft": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
