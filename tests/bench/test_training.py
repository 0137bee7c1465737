"""Training is compared fairly: the same model, the same tokens, everybody in turn. What the figures are is no test."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from weft.bench.training import TrainingFigures, measure, measure_training, tabulate_training, trainers
from weft.bench.training.case import SIZES, plan_training
from weft.bench.training.sentences import Padding, Sentences, build_sentences
from weft.bench.training.trainers import IGNORED, HuggingFaceTrainer, WeftTrainer, build_marian, build_translator
from weft.data import Batches, PackedBatches
from weft.errors import ConfigError
from weft.run.report import count_parameters
from weft.text import EOS, PAD, SOS
from weft.training.compilation import Compilation

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="the package transformers is not installed"
)

TINY = {"layers": 1, "width": 16, "heads": 2, "feedforward": 32, "words": 300, "rows": 4, "length": 6}


def case(*, contenders=("weft",), **options):
    sizes = TINY | options.pop("sizes", {})
    return plan_training(device="cpu", sizes=sizes, contenders=contenders, repeats=3, **options)


@pytest.fixture
def mixed(pairs):
    """Real pairs, in batches of 32 tokens."""
    return case(data=[pairs], sizes={"rows": 4, "length": 8})


def batches_of(sentences):
    """Those that weft cuts on a CPU."""
    return Batches(sentences.examples.lengths, batch_tokens=sentences.batch_tokens)


def test_random_words_fill_every_batch_without_padding():
    sentences = build_sentences(case())
    assert sentences.uniform
    for epoch in range(3):
        (rows,) = batches_of(sentences).epoch(epoch)
        assert sorted(rows) == [0, 1, 2, 3]
    source, target = (sentences.examples.columns[side][0].tolist() for side in ("source", "target"))
    assert (len(source), len(target)) == (6, 7)
    assert source[-1] == target[-1] == EOS
    assert target[0] == SOS
    assert max(source + target) < TINY["words"]


def test_others_get_as_many_rows_as_weft_has_on_average(mixed):
    sentences = build_sentences(mixed)
    assert not sentences.uniform
    batches = batches_of(sentences).epoch(0)
    assert sentences.rows == round(300 / len(batches))
    per_epoch = 300 // sentences.rows
    epoch = list(islice(sentences.random_rows(), per_epoch))
    assert {len(rows) for rows in epoch} == {sentences.rows}
    assert len({int(row) for rows in epoch for row in rows}) == per_epoch * sentences.rows


def test_a_text_with_few_words_is_told(mixed):
    (note,) = build_sentences(replace(mixed, words=5000)).notes
    assert "of 5,000 words" in note


def test_padding_is_the_share_of_positions_without_a_token():
    padding = Padding()
    assert padding.share == 0
    padding.add(torch.zeros(2, 4), 5)
    assert padding.share == 3 / 8
    padding.add(torch.zeros(8), 8)
    assert padding.share == 3 / 16


def test_weft_counts_every_target_token_of_an_epoch(mixed):
    sentences = build_sentences(mixed)
    trainer = WeftTrainer(mixed, sentences)
    tokens = sum(trainer.update() for _ in batches_of(sentences).epoch(0))
    trainer.close()
    assert tokens == int((sentences.examples.columns["target"].lengths - 1).sum())
    assert 0 <= trainer.padding.share < 0.2


def test_packed_batches_have_no_padding_but_what_is_left_of_their_room(mixed):
    sentences, rows = build_sentences(mixed), np.arange(40)
    sentences.task.collate(sentences.examples, rows, packed=True)
    assert sentences.task.padding.share == 0
    batches = PackedBatches(sentences.examples.lengths[rows], batch_tokens=1000)
    sentences.task.collate(
        sentences.examples, batches.epoch(0)[0], packed=True, capacity=batches.capacity(batches.epoch(0)[0])
    )
    assert 0 < sentences.task.padding.share < 0.1
    sentences.task.collate(sentences.examples, rows)
    assert sentences.task.padding.share > 0.1


@needs_transformers
def test_transformers_counts_the_target_tokens_of_its_rows(mixed):
    sentences = build_sentences(mixed)
    trainer = HuggingFaceTrainer(mixed, sentences)
    trainer.ready(2)
    for rows in islice(sentences.random_rows(), 3):
        assert trainer.update() == int((sentences.examples.columns["target"].lengths[rows] - 1).sum())
    assert trainer.padding.share > 0


@needs_transformers
def test_transformers_learns_from_real_tokens_only(mixed):
    batch, tokens = HuggingFaceTrainer(mixed, build_sentences(mixed)).collate()
    real = batch["labels"] != IGNORED
    assert int(real.sum()) == tokens < real.numel()
    assert (batch["decoder_input_ids"] != PAD)[real].all()
    assert torch.equal(batch["attention_mask"].bool(), batch["input_ids"] != PAD)
    assert torch.equal(batch["decoder_input_ids"][:, 1:][real[:, 1:]], batch["labels"][:, :-1][real[:, 1:]])
    uniform, _ = HuggingFaceTrainer(case(), build_sentences(case())).collate()
    assert "attention_mask" not in uniform


@needs_transformers
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_models_are_of_one_size(device):
    asked = plan_training(device="cpu", sizes=SIZES[device])
    with torch.device("meta"):
        weft = build_translator(asked)
        marian = build_marian(asked, longest=asked.length + 1)
    # weft learns a bias for every word, of which Marian's are fixed.
    assert count_parameters(weft) - asked.words == count_parameters(marian)


@needs_transformers
def test_both_do_the_same_arithmetic():
    asked = case(sizes={"width": 64, "feedforward": 256, "rows": 8, "length": 16})
    sentences = build_sentences(asked)
    counts = []
    for trainer in (WeftTrainer(asked, sentences), HuggingFaceTrainer(asked, sentences)):
        with FlopCounterMode(display=False) as counter:
            assert trainer.update() == 8 * 16
        counts.append(counter.get_total_flops())
        trainer.close()
    assert counts[0] == pytest.approx(counts[1], rel=0.02)


NOTHING = Sentences(None, None, batch_tokens=1, rows=1)
"""For trainers that do not read it."""


class Fake:
    """A trainer whose updates take the seconds it is told, 10 tokens each."""

    def __init__(self, clock, seconds, parameters=100):
        self.clock, self.left, self.parameters = clock, iter(seconds), parameters
        self.padding, self.notes, self.closed = Padding(real=3, positions=4), (), False

    def ready(self, updates):
        pass

    def update(self):
        self.clock.ran.append(self)
        seconds = next(self.left)
        if isinstance(seconds, Exception):
            raise seconds
        self.clock.now += seconds
        return 10

    def close(self):
        self.closed = True


@pytest.fixture
def clock(monkeypatch):
    """Time that only fake trainers pass; `enter` says who they are."""

    class Clock:
        def __init__(self):
            self.now, self.ran = 0.0, []

        def enter(self, **trainers):
            monkeypatch.setattr(measure, "build_trainer", lambda who, *_: trainers[who.replace("-", "_")])

    clock = Clock()
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock.now)
    return clock


def fake_case(*contenders):
    return replace(case(updates=1), contenders=contenders)


def test_the_median_of_samples_taken_in_turn(clock):
    weft = Fake(clock, [100.0, 50.0, 1.0, 4.0, 2.0])
    other = Fake(clock, [9.0, 9.0, 5.0, 5.0, 80.0])
    clock.enter(weft=weft, huggingface=other)
    outcome = measure_training(fake_case("weft", "huggingface"), NOTHING)
    assert clock.ran == [weft, weft, other, other, weft, other, other, weft, weft, other]
    first, second = outcome.rows
    assert (first.rate, first.seconds, first.first, first.tokens) == (5.0, 2.0, 100.0, 10)
    assert (second.rate, second.padding, second.peak) == (2.0, 0.25, None)
    assert outcome.remarks == []
    assert weft.closed
    assert other.closed


@pytest.mark.parametrize("compile", [True, False])
def test_weft_compiles_if_asked_and_says_so(monkeypatch, compile):
    asked = []

    def compile_model(model, setting, **_):
        asked.append(setting)
        return Compilation(notes=("as it was asked",))

    monkeypatch.setattr(trainers, "compile_model", compile_model)
    chosen = case(compile=compile)
    outcome = measure_training(chosen, build_sentences(chosen))
    assert asked == [compile]
    assert outcome.remarks == ["weft: as it was asked"]


def test_what_cannot_be_compiled_is_told_and_left_out(clock):
    broken = Fake(clock, [RuntimeError("no compiler\nand a long story")])
    clock.enter(weft=Fake(clock, [1.0] * 5), huggingface_compiled=broken)
    outcome = measure_training(fake_case("weft", "huggingface-compiled"), NOTHING)
    assert [row.who for row in outcome.rows] == ["weft"]
    assert outcome.remarks == ["without huggingface-compiled: no compiler"]
    assert broken.closed


def test_a_batch_too_large_is_a_mistake_in_the_settings(clock):
    weft = Fake(clock, [1.0, 1.0, torch.OutOfMemoryError("CUDA out of memory")])
    clock.enter(weft=weft)
    with pytest.raises(ConfigError, match="--rows: 4 does not fit"):
        measure_training(fake_case("weft"), NOTHING)
    assert weft.closed


def test_models_of_different_size_are_told(clock):
    clock.enter(weft=Fake(clock, [1.0] * 5), huggingface=Fake(clock, [1.0] * 5, parameters=103))
    outcome = measure_training(fake_case("weft", "huggingface"), NOTHING)
    assert outcome.remarks == ["the models differ in size: weft 100, huggingface 103 parameters"]


def test_a_table_has_ratios_and_memory_where_it_is_known():
    figures = {"parameters": 61_000_000, "seconds": 0.02, "tokens": 16384.0, "padding": 0.031, "first": 7.25}
    weft = TrainingFigures(who="weft", rate=800_000.0, peak=2**30, **figures)
    other = TrainingFigures(who="huggingface", rate=400_000.0, peak=2**31, **figures)
    headings, lines = tabulate_training([weft, other])
    found = [dict(zip(headings, line, strict=True)) for line in lines]
    assert [row["ratio"] for row in found] == ["-", "2.00×"]
    assert [row["peak MiB"] for row in found] == ["1,024", "2,048"]
    assert (found[0]["tokens/s"], found[0]["padding"], found[0]["ms/update"]) == ("800,000", "3.1%", "20.0")
    headings, lines = tabulate_training([replace(other, peak=None)])
    assert "peak MiB" not in headings
    assert dict(zip(headings, lines[0], strict=True))["ratio"] == "-"
