"""What a state carried across batches is worth on real text, and that validation measures it."""

from __future__ import annotations

import lzma
import os
import random
from itertools import cycle, islice
from pathlib import Path

import pytest
import torch

from weft.data import Text
from weft.decoding import DecodeConfig
from weft.evaluate import evaluate
from weft.models import LanguageModel, RecurrentLanguageConfig, build_language_model
from weft.tasks import Codec, LanguageModelling, encode
from weft.text import SOS, TextConfig, Tokenizer
from weft.training import SCHEDULES, Carry, Streams, build_optimizer, steps

DATA = Path(os.environ.get("WEFT_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
SHAKESPEARE = DATA / "tinyshakespeare" / "input.txt.xz"
TRUNCATE, STREAMS, UPDATES = 8, 64, 400
CONFIG = RecurrentLanguageConfig.model_validate({"embedding": 32, "hidden": 96, "cell": "gru", "dropout": 0.0})


class Reset(Carry):
    """The same, but every batch begins from nothing."""

    def loss(self, model, batch, *, label_smoothing=0.0):
        self.carried = None
        return super().loss(model, batch, label_smoothing=label_smoothing)


def task_of(text: str) -> LanguageModelling:
    """Characters of running text, in pieces as long as those it is learned in."""
    codec = Codec({"": Tokenizer.learn([text], TextConfig(kind="char"))})
    data = LanguageModelling.sections.data(train="text.txt", unit="stream", max_length=TRUNCATE)
    return LanguageModelling(codec, data)


def learned(task: LanguageModelling, text: str, kind: type[Carry], *, updates: int = UPDATES) -> LanguageModel:
    """A model that has read the text piece by piece."""
    torch.manual_seed(0)
    model = build_language_model(CONFIG, len(task.tokenizer))
    examples = encode(task, [Text(text)], task.limit(training=True))
    streams = Streams(examples, batch_tokens=TRUNCATE * STREAMS, truncate=TRUNCATE)
    batches = (streams.collate(number) for number in islice(cycle(streams.epoch(0)), updates))
    optimizer = build_optimizer(model, kind="adam", rate=0.01, weight_decay=0.0)
    schedule = SCHEDULES["constant"](20, updates)
    for _ in steps(model, kind(task, model, truncate=TRUNCATE), batches, optimizer=optimizer, schedule=schedule):
        pass
    return model


def measured(task: LanguageModelling, model: LanguageModel, text: str, *, running: bool) -> dict[str, float]:
    examples = encode(task, [Text(text)], task.limit(training=False), running=running)
    return evaluate(task, model, examples, decode=DecodeConfig()).metrics


@pytest.mark.slow
@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="needs tinyshakespeare/input.txt.xz below $WEFT_TEST_DATA")
def test_on_real_text_a_carried_state_lowers_perplexity():
    """Both learn from the same pieces of eight characters, and are measured in the way they have learned."""
    with lzma.open(SHAKESPEARE, "rt", encoding="utf-8") as file:
        text = file.read()
    cut = len(text) * 9 // 10
    task, train, valid = task_of(text), text[:cut], text[cut : cut + 40_000]
    carried = measured(task, learned(task, train, Carry), valid, running=True)["perplexity"]
    reset = measured(task, learned(task, train, Reset), valid, running=False)["perplexity"]
    assert carried < 0.93 * reset


def test_validation_carries_the_state_as_training_does():
    """Of a text of period 49 over four letters, eight letters alone do not say what the next is; see test_bptt.py."""
    draw = random.Random(0)
    text = "".join(draw.choice("abcd") for _ in range(49)) * 120
    task = task_of(text)
    model = learned(task, text, Carry, updates=100)
    carried, reset = (measured(task, model, text, running=running) for running in (True, False))
    assert carried["perplexity"] < 1.15
    assert reset["perplexity"] > 1.3


@pytest.mark.parametrize("letters", [1, 100, 8191, 8192, 40_001])
def test_every_letter_of_a_text_is_scored_however_it_is_read(letters):
    task = task_of("abcd")
    model = build_language_model(CONFIG, len(task.tokenizer))
    text = ("abcd" * letters)[:letters]
    examples = [encode(task, [Text(text)], task.limit(training=False), running=running) for running in (True, False)]
    carried, reset = (evaluate(task, model, each, decode=DecodeConfig()) for each in examples)
    assert carried.details["tokens"] == reset.details["tokens"] == letters
    ratio = [each.metrics["bits_per_character"] / each.metrics["loss"] for each in (carried, reset)]
    assert ratio[0] == pytest.approx(ratio[1]), "both know how many characters there are"


def test_the_carried_score_is_that_of_one_pass_over_a_short_text():
    task = task_of("abcd")
    model = build_language_model(CONFIG, len(task.tokenizer)).eval()
    text = "abcdcba" * 90
    tokens = torch.tensor([[SOS, *task.tokenizer.encode(text)]])
    with torch.no_grad():
        whole = model.output.loss(model(tokens[:, :-1]).flatten(0, 1), tokens[0, 1:]) / len(text)
    assert measured(task, model, text, running=True)["loss"] == pytest.approx(float(whole), rel=1e-5)


def test_batches_with_streams_of_their_own_are_one_larger_batch_and_go_on_after_a_checkpoint():
    task = task_of("abcd")
    model = build_language_model(CONFIG, len(task.tokenizer)).eval()
    examples = encode(task, [Text("abcdcbabacad" * 16)], task.limit(training=True))
    large = Streams(examples, batch_tokens=6 * TRUNCATE, truncate=TRUNCATE)
    small = Streams(examples, batch_tokens=2 * TRUNCATE, truncate=TRUNCATE, parts=3)
    assert len(small.epoch(0)) == 3 * len(large.epoch(0)) > 9
    whole, parts = Carry(task, model, truncate=TRUNCATE), Carry(task, model, truncate=TRUNCATE)
    for number in large.epoch(0):
        loss = whole.loss(model, large.collate(number)).total
        shares = [parts.loss(model, small.collate(3 * number + part)).total for part in range(3)]
        torch.testing.assert_close(sum(shares), loss)
        state, parts = parts.state(), Carry(task, model, truncate=TRUNCATE)
        parts.restore(state)
        for mine, one in zip(state["leaves"], whole.state()["leaves"], strict=True):
            torch.testing.assert_close(mine, one)
