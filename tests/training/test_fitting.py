"""A batch that does not fit is computed in parts, by the gradient that the whole would have had."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from weft.catalog import TASKS
from weft.config import validate
from weft.data import Examples, PackedBatches, Ragged
from weft.errors import Fault
from weft.tasks import Codec, Loss
from weft.tasks.task import Origin
from weft.text import EOS, SOS, TextConfig, Tokenizer
from weft.training import SCHEDULES, LoopOptions, build_optimizer, steps
from weft.training.gradients import size_of
from weft.training.ranks import Ranks

MODELS = {
    "rnn": {"kind": "rnn", "embedding": 8, "hidden": 12, "dropout": 0.0},
    "transformer": {"kind": "transformer", "width": 16, "heads": 2, "layers": 2, "dropout": 0.0},
}
LENGTHS = (9, 8, 7, 7, 6, 5, 3, 2)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")


class Cramped:
    """An objective with memory for so many tokens; a batch beyond that fails in the middle of its backward
    pass, when some of the gradients are there."""

    def __init__(self, task, capacity):
        self.task, self.capacity, self.tried = task, capacity, []

    def loss(self, model, batch, *, label_smoothing=0.0):
        self.tried.append(size_of(batch))
        # What comes first in the forward pass comes last in the backward pass.
        first = Breaks.apply(next(model.parameters()).sum()) if size_of(batch) > self.capacity else 0.0
        loss = self.task.loss(model, batch, label_smoothing=label_smoothing)
        return Loss(loss.total + first, loss.count)


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 0

    @staticmethod
    def backward(context, gradient):
        raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.fixture
def language():
    """A language model's task, its examples, and batches of them that know their origin."""

    class Language:
        def __init__(self, lengths=LENGTHS):
            codec = Codec({"": Tokenizer.learn(["abcdefgh"], TextConfig(kind="char", size=300))})
            self.task = TASKS["lm"](codec, TASKS["lm"].sections.data(train=""))
            draw = np.random.default_rng(0)
            rows = [[SOS, *draw.integers(5, 30, length - 1).tolist(), EOS] for length in lengths]
            columns = {"tokens": Ragged.from_lists(rows), "characters": Ragged.from_lists([[1]] * len(rows))}
            self.examples = Examples(columns, self.task.cost(columns))
            self.words = len(codec.tokenizers[""])

        def batch(self, rows, *, packed=False):
            def make(rows):
                batch = self.task.collate(self.examples, rows, packed=packed)
                return replace(batch, origin=Origin(rows, self.examples, make))

            return make(np.asarray(rows))

        def model(self, kind, device="cpu"):
            torch.manual_seed(0)
            config = validate({"task": "lm", "data": {"train": ""}, "model": MODELS[kind]})
            return self.task.build(config.model, self.task.codec).to(device)

    return Language


def run(model, objective, batches, *, largest=None, **options):
    optimizer = build_optimizer(model, kind="sgd", rate=0.1, weight_decay=0.0)
    schedule = SCHEDULES["constant"](0, 9)
    chosen = LoopOptions(clip=0.0, **options)
    return steps(model, objective, batches, optimizer=optimizer, schedule=schedule, options=chosen, largest=largest)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("kind", "packed"), [("rnn", False), ("transformer", False), ("transformer", True)])
def test_parts_make_the_update_of_the_whole(language, kind, packed, accumulate):
    data = language()
    batches = [data.batch(rows, packed=packed) for rows in ([6, 7], range(8), [0, 1, 2], [3, 4])]
    model, twin = data.model(kind), data.model(kind)
    cramped = Cramped(data.task, capacity=30)
    loops = (run(model, cramped, batches, accumulate=accumulate), run(twin, data.task, batches, accumulate=accumulate))
    for step, other in zip(*loops, strict=True):
        assert step.loss == pytest.approx(other.loss, rel=1e-6)
        assert step.gradient == pytest.approx(other.gradient, rel=1e-5)
        torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=1e-6)
    assert max(cramped.tried) > 30


def test_it_is_told_once_and_not_tried_again(language):
    data = language()
    cramped = Cramped(data.task, capacity=30)
    told = [step.notes for step in run(data.model("rnn"), cramped, [data.batch(range(8))] * 3)]
    assert cramped.tried == [72, 36, 18, 14, 24] + [18, 14, 24] * 2, "only the first time the whole and its first half"
    assert told[1:] == [(), ()]
    [note] = told[0]
    assert "8 examples and 72 tokens (training examples 0, 1, 2, 3, 4, 5, 6, 7) did not fit" in note
    assert "in 3 parts, as later ones of 36 tokens or more" in note
    assert "train.batch_tokens" in note


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([0], {}, r"1 example and 9 tokens \(training examples 0\) does not fit .*data\.max_length"),
        (range(4), {"ranks": Ranks(0, 2)}, r"4 examples and 36 tokens .*does not fit .*train\.batch_tokens"),
    ],
)
def test_what_cannot_be_split_ends_with_a_clear_line(language, rows, options, message):
    data = language()
    batches, accumulate = [data.batch(rows)] * 2, 2 if options else 1
    with pytest.raises(Fault, match=message):
        list(run(data.model("rnn"), Cramped(data.task, capacity=5), batches, accumulate=accumulate, **options))


def test_a_batch_of_unknown_origin_ends_with_the_setting(points, run_steps):
    class Full:
        def loss(self, model, batch, *, label_smoothing=0.0):
            raise torch.OutOfMemoryError

    _, loop = run_steps([points()], objective=Full())
    with pytest.raises(Fault, match=r"a batch of 16 tokens does not fit .*train\.batch_tokens"):
        next(loop)


def test_the_largest_batch_is_tried_first_and_leaves_no_trace(language):
    data = language()
    batches, sizes = [data.batch(rows) for rows in ([6, 7], [0, 1, 2], [3, 4])], []

    class Drawing:
        """Draws random numbers, as dropout does, and remembers something in a buffer."""

        def loss(self, model, batch, *, label_smoothing=0.0):
            sizes.append(size_of(batch))
            model.seen += 1
            loss = data.task.loss(model, batch)
            return Loss(loss.total * (1 + torch.rand(())), loss.count)

    def train(**options):
        model = data.model("rnn")
        model.register_buffer("seen", torch.zeros(()))
        return [(step.loss, step.gradient, step.notes) for step in run(model, Drawing(), batches, **options)], model

    plain, twin = train()
    sizes.clear()
    found, model = train(largest=data.batch(range(8)))
    assert sizes == [72, 6, 27, 14]
    assert [values[:2] for values in found] == [values[:2] for values in plain]
    assert all(map(torch.equal, model.state_dict().values(), twin.state_dict().values()))
    assert [notes for *_, notes in found] == [("tried the largest batch first: 8 examples, 72 tokens",), (), ()]


def test_a_largest_batch_that_does_not_fit_is_known_before_the_first_update(language):
    data = language()
    cramped = Cramped(data.task, capacity=30)
    loop = run(data.model("rnn"), cramped, [data.batch(range(8))], largest=data.batch(range(8)))
    notes = next(loop).notes
    assert ["parts" in note for note in notes] == [True, False]
    assert cramped.tried == [72, 36, 18, 14, 24, 18, 14, 24]


@CUDA
class TestOnCuda:
    """With little memory given to this process, real batches fail in the real way."""

    LONG = (400,) * 256

    @pytest.fixture(autouse=True)
    def _whole_memory(self):
        yield
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()

    def limited(self, language, kind, *, packed, captured, share):
        """Losses and notes with `share` of the memory that the training takes when it has enough."""
        data = language(self.LONG)
        rows = range(len(self.LONG))
        plan = PackedBatches(data.examples.lengths, batch_tokens=10**6) if packed else None
        batches = [
            replace(
                data.task.collate(
                    data.examples,
                    np.asarray(rows),
                    packed=packed,
                    capacity=plan and plan.capacity(np.asarray(rows)),
                ),
                origin=data.batch(rows, packed=packed).origin,
            ).pin()
        ] * 3

        def losses():
            model = data.model(kind, "cuda")
            found = list(run(model, data.task, batches, captured=captured, precision="float32"))
            return [step.loss for step in found], [note for step in found for note in step.notes]

        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        whole = losses()
        peak = torch.cuda.max_memory_reserved()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(share * peak / torch.cuda.get_device_properties(0).total_memory)
        return whole, losses()

    @pytest.mark.parametrize(
        ("kind", "packed", "captured"),
        [
            ("rnn", False, False),
            ("transformer", False, False),
            ("transformer", True, False),
            ("transformer", True, True),
        ],
    )
    def test_too_little_memory_makes_parts_and_the_same_updates(self, language, kind, packed, captured):
        (expected, silent), (found, notes) = self.limited(language, kind, packed=packed, captured=captured, share=0.6)
        assert silent == []
        assert notes
        assert found == pytest.approx(expected, rel=1e-4)
