"""Scheduled sampling: who has read its own mistakes while learning makes fewer of them later."""

from __future__ import annotations

import random
from itertools import count, islice

import pytest
import torch

from weft.data import Batches, Pair
from weft.decoding import DecodeConfig
from weft.models import Translator, TranslatorConfig
from weft.tasks import TASKS, Codec, encode
from weft.text import TextConfig, Tokenizer
from weft.training import SCHEDULES, TrainConfig, build_objective, build_optimizer, steps

LETTERS = "abcdefgh"
LENGTH, UPDATES = 8, 250
SIZES = {"embedding": 24, "hidden": 32, "dropout": 0.0}


def copies(number: int) -> list[Pair]:
    """A string to copy from a source with mistakes in it.

    In the string a letter mostly follows the one before it in the alphabet, so that whoever reads the true letters need
    not look at the source very much. Whoever reads its own should: a mistake goes on and on otherwise.
    """
    draw = random.Random(0)
    pairs = []
    for _ in range(number):
        string = [draw.randrange(8)]
        while len(string) < LENGTH:
            string.append(draw.randrange(8) if draw.random() < 0.2 else (string[-1] + 1) % 8)
        source = [draw.randrange(8) if draw.random() < 0.25 else letter for letter in string]
        pairs.append(Pair(*("".join(LETTERS[letter] for letter in side) for side in (source, string)), place=""))
    return pairs


def mistakes(settings: TrainConfig) -> float:
    """The share of wrong letters in what a model writes by itself."""
    pairs = copies(3300)
    test, train = pairs[:300], pairs[300:]
    kind = TASKS["translate"]
    task = kind(Codec({"": Tokenizer.learn([LETTERS], TextConfig(kind="char"))}), kind.sections.data(train="x.tsv"))
    examples = encode(task, train, task.limit(training=True))
    batches = Batches(examples.lengths, batch_tokens=512)
    stream = (task.collate(examples, rows) for epoch in count() for rows in batches.epoch(epoch))
    torch.manual_seed(0)
    config = TranslatorConfig.model_validate({"encoder": SIZES, "decoder": SIZES})
    model = task.build(config, task.codec)
    assert isinstance(model, Translator)
    for _ in steps(
        model,
        build_objective(task, model, settings),
        islice(stream, UPDATES),
        optimizer=build_optimizer(model, kind="adam", rate=1e-2, weight_decay=0.0),
        schedule=SCHEDULES["cosine"](20, UPDATES),
    ):
        pass
    model.eval()
    batch = task.collate(encode(task, test), range(len(test)))
    with torch.no_grad():
        written = task.predict(model, batch, records=test, decode=DecodeConfig(beam=1))
    wrong = sum(
        letter != true
        for answer, pair in zip(written, test, strict=True)
        for letter, true in zip(answer.text.ljust(LENGTH), pair.target, strict=False)
    )
    return wrong / (LENGTH * len(test))


@pytest.mark.covers("L2")
def test_scheduled_sampling_lowers_the_error_of_exposure():
    forced = mistakes(TrainConfig())
    sampled = mistakes(TrainConfig.model_validate({"teacher_forcing": {"kind": "linear", "k": 150.0}}))
    assert sampled < 0.8 * forced
