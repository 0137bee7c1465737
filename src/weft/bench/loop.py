"""`weft bench loop`: the time that the training loop adds to forward, backward and step written out by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from weft.bench.machine import choose_place
from weft.bench.timing import Contender, time_in_turn
from weft.config import validate
from weft.data import Examples, Ragged
from weft.models import build_language_model
from weft.run.learner import Learner, build_batches
from weft.run.report import count_parameters
from weft.tasks import Batch, Codec, LanguageModelling
from weft.tasks.lm import TextData
from weft.text import EOS, SOS, SPECIALS, TextConfig, Tokenizer
from weft.training import precise
from weft.training.gradients import Captured

RATE: Final = 1e-4
"""A small rate, so that training on random words stays finite."""

TOTAL_UPDATES: Final = 1_000_000
"""The length of the training as the loop sees it."""

MODELS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "cpu": {
        "rnn": {"kind": "rnn", "cell": "lstm", "embedding": 256, "hidden": 256},
        "transformer": {"kind": "transformer", "width": 256, "layers": 3, "heads": 4},
    },
    "cuda": {
        "rnn": {"kind": "rnn", "cell": "lstm", "embedding": 1024, "hidden": 1024, "layers": 2},
        "transformer": {"kind": "transformer", "width": 512, "layers": 6, "heads": 8},
    },
}
"""Language models as `weft train lm` builds them by default for texts of medium size."""

ROUNDS_PER_BLOCK: Final = 3

UPDATES_PER_SAMPLE: Final = {"cpu": 1, "cuda": 25}
"""On a GPU a training queues updates ahead; a sample must be long enough for that."""

SIZES: Final = {"cpu": {"rows": 32, "length": 32, "words": 4000}, "cuda": {"rows": 256, "length": 128, "words": 8000}}


@dataclass(frozen=True)
class LoopCase:
    """The device, and the batch: rows, tokens per row, words of the vocabulary."""

    place: str
    rows: int
    length: int
    words: int
    dropout: float = 0.1

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    def describe(self) -> str:
        """The line above the table: the settings that all its rows share."""
        on_gpu = self.device.type == "cuda"
        precision = "bf16 by autocast" if on_gpu else "float32"
        graphs = "; the transformer's forward and backward run from one CUDA graph in all three" if on_gpu else ""
        return (
            f"language models of {self.words:,} words, {self.rows}×{self.length} tokens, {precision}, fused AdamW; "
            f"bare is forward, backward and step, clipped bounds the norm too, the loop also makes its batches{graphs}"
        )


def plan_loop(device: str = "auto") -> LoopCase:
    """Build the case of sizes that suit the device."""
    place = choose_place(device)
    return LoopCase(str(place), **SIZES[place.type])


@dataclass(frozen=True)
class LoopFigures:
    """One model: the median seconds of an update by each contender, and the shares of time that the loop adds.

    A share is the median over blocks of a few rounds, since the load of the machine hardly changes within a block.
    """

    model: str
    parameters: int
    seconds: dict[str, float]
    added: dict[str, float]

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        times = {f"{who}_ms": 1000 * seconds for who, seconds in self.seconds.items()}
        shares = {f"added_to_{who}": share for who, share in self.added.items()}
        return {"model": self.model, "parameters": self.parameters} | times | shares


def measure_loop(kind: str, case: LoopCase, *, repeats: int) -> LoopFigures:
    """Measure one kind of model, all contenders in turn."""
    learning = build_learning(MODELS[case.device.type][kind], case)
    steps, compute = learning.steps(), forward_and_backward(learning)
    # All share one model and optimizer: their place in memory changes the time more than a loop does.
    contenders = {
        "bare": Contender(by_hand(learning, compute, clip=0.0)),
        "clipped": Contender(by_hand(learning, compute, clip=learning.settings.clip)),
        "loop": Contender(lambda: next(steps)),
    }
    calls = UPDATES_PER_SAMPLE[case.device.type]
    blocks = [
        time_in_turn(contenders, rounds=ROUNDS_PER_BLOCK, device=case.device, calls=calls) for _ in range(repeats)
    ]
    return LoopFigures(
        kind,
        count_parameters(learning.model),
        {who: statistics.median(block[who] for block in blocks) for who in contenders},
        {who: statistics.median(block["loop"] / block[who] for block in blocks) - 1 for who in ("bare", "clipped")},
    )


def build_learning(model: dict[str, Any], case: LoopCase) -> Learner:
    """Build the training of a model as `weft train` does, over a single batch; blocks stay uncompiled."""
    config = validate(
        {
            "task": "lm",
            "data": {"train": ""},
            "model": model | {"dropout": case.dropout},
            "train": {"rate": RATE, "schedule": "constant", "warmup": 0},
        }
    )
    task, examples = draw_texts(case)
    settings: Any = config.model
    built = build_language_model(settings, case.words).to(case.device)
    # With a budget for twice the rows an epoch is one batch, however the lengths are rounded.
    plan = build_batches(built, examples, batch_tokens=2 * case.rows * case.length)
    return Learner(task, built, examples, plan, config=config, total=TOTAL_UPDATES)


def forward_and_backward(learning: Learner) -> Callable[[Batch], object]:
    """Return a function for the gradients of a batch: from a CUDA graph if the training uses one, else call by call."""
    model, device = learning.model.train(), learning.device

    def compute(batch: Batch, factor: Tensor | float) -> Tensor:
        with precise("auto", device):
            loss = learning.objective.loss(model, batch)
        mean = loss.total * factor
        torch.autograd.backward(mean)
        return mean.detach()

    if learning.captured:
        graph = Captured(compute, list(model.parameters()), device)
        return lambda batch: graph(batch, 1 / batch.count)
    return lambda batch: compute(batch.to(device), 1 / batch.count)


def by_hand(learning: Learner, compute: Callable[[Batch], object], *, clip: float) -> Callable[[], None]:
    """Return an update in the fewest lines, on a batch that is already in memory."""
    model, optimizer = learning.model, learning.optimizer
    batch = learning.stream.largest()
    assert batch is not None
    ready = batch.pin() if learning.device.type == "cuda" else batch

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(ready)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    return update


def draw_texts(case: LoopCase) -> tuple[LanguageModelling, Examples]:
    """Draw one batch of random words, and build the task that collates it."""
    draw = np.random.default_rng(0)
    words = draw.integers(len(SPECIALS), case.words, (case.rows, case.length - 1)).tolist()
    columns = {
        "tokens": Ragged.from_lists([SOS, *row, EOS] for row in words),
        "characters": Ragged.from_lists([[case.length]] * case.rows),
    }
    # No text is tokenised, so the smallest tokenizer is enough.
    codec = Codec({"": Tokenizer.learn(["a"], TextConfig(kind="char", size=len(SPECIALS) + 257))})
    task = LanguageModelling(codec, TextData(train=""))
    return task, Examples(columns, task.cost(columns))


def tabulate_loop(rows: Sequence[LoopFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; a share is the time that the loop takes beyond a contender's."""
    headings = ["model", "parameters", "bare ms", "clipped ms", "loop ms", "beyond bare", "beyond clipped"]
    return headings, [
        [
            row.model,
            f"{row.parameters:,}",
            *(f"{1000 * row.seconds[who]:.2f}" for who in ("bare", "clipped", "loop")),
            *(f"{100 * row.added[to]:+.1f}%" for to in ("bare", "clipped")),
        ]
        for row in rows
    ]
