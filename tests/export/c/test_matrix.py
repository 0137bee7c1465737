"""Every task with every neural kind and every cell: the C's answers are those of the run, on 50 inputs of different
lengths; texts by beam too; and what is read token by token is what one pass over the whole text gives."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.export.c.models import CModel, compare_samples
from tests.export.c.trained import trained
from tests.export.graph.test_cells import Blocks, FastWeights

from weft.catalog import CELLS
from weft.data import Steps
from weft.export.c.samples import samples_of
from weft.tasks.caption import source_pair
from weft.text import EOS, SOS

pytestmark = pytest.mark.filterwarnings("ignore")

INPUTS = 50
OWN = {"blocks": Blocks, "fast_weights": FastWeights}
TRANSFORMER = {"kind": "transformer", "width": 16, "heads": 2, "layers": 2}
WORD = {"kind": "word"}
CALENDAR = {"past": ["rain"], "known": ["holiday"], "calendar": ["day", "week", "year"]}


class Case(NamedTuple):
    task: str
    model: dict[str, Any]
    text: Any = None
    features: bool = False
    data: Any = None


def rnn(cell: str, **more: Any) -> dict[str, Any]:
    return {"kind": "rnn", "cell": cell, "hidden": 12, "embedding": 8, "dropout": 0.0, **more}


def of_cell(cell: str) -> Iterator[tuple[str, Case]]:
    """Every task by a recurrent network of a cell, in both directions where the task allows it."""
    both = rnn(cell, bidirectional=True)
    yield "classify", Case("classify", {**both, "pooling": "attention"}, WORD)
    yield "regress", Case("regress", rnn(cell, layers=2), WORD)
    yield "tag", Case("tag", {**both, "characters": 6, "crf": True})
    yield "mask", Case("mask", both, WORD)
    yield "lm", Case("lm", rnn(cell, layers=2), WORD)
    yield "translate", Case("translate", {"encoder": both, "decoder": rnn(cell)}, WORD)
    decoder = {**rnn(cell), "context": "attention"}
    yield "translate inside", Case("translate", {"encoder": rnn(cell), "decoder": decoder}, {"kind": "char"})
    small = {"kind": "conv", "channels": [8]}
    yield "caption", Case("caption", {"encoder": small, "decoder": rnn(cell)}, WORD)
    yield "forecast", Case("forecast", rnn(cell))
    yield "forecast recursive", Case("forecast", {**rnn(cell), "multistep": "recursive"}, data=CALENDAR)


OTHERS: dict[str, Case] = {
    "classify transformer": Case("classify", TRANSFORMER, {"kind": "bpe", "size": 300}),
    "classify features": Case("classify", rnn("gru"), features=True),
    "regress transformer": Case("regress", TRANSFORMER, {"kind": "unigram", "size": 300}),
    "regress features": Case("regress", TRANSFORMER, features=True),
    "tag transformer": Case("tag", {**TRANSFORMER, "characters": {"kind": "cnn"}}),
    "tag features": Case("tag", rnn("lstm", crf=True), features=True),
    "mask transformer": Case("mask", TRANSFORMER, {"kind": "bpe", "size": 300}),
    "mask unigram": Case("mask", TRANSFORMER, {"kind": "unigram", "size": 300, "lowercase": True}),
    "lm transformer": Case("lm", {**TRANSFORMER, "positions": "rotary"}, {"kind": "bpe", "size": 300}),
    "lm conv": Case("lm", {"kind": "conv", "embedding": 8, "width": 12, "layers": 2}, {"kind": "char"}),
    "translate transformer": Case("translate", {"encoder": TRANSFORMER, "decoder": TRANSFORMER}, WORD),
    "translate transformer to rnn": Case("translate", {"encoder": TRANSFORMER, "decoder": rnn("lstm")}, WORD),
    "translate prefix": Case(
        "translate", {"kind": "prefix", "decoder": TRANSFORMER}, {"kind": "bpe", "size": 300, "shared": True}
    ),
    "caption transformer": Case(
        "caption", {"encoder": {"kind": "conv", "channels": [8]}, "decoder": TRANSFORMER}, WORD
    ),
    "caption features": Case("caption", {"decoder": rnn("lstm")}, WORD, features=True),
    "forecast transformer": Case("forecast", {**TRANSFORMER, "multistep": "recursive"}),
    "forecast transformer direct": Case("forecast", TRANSFORMER, data=CALENDAR),
    "forecast conv": Case("forecast", {"kind": "conv", "embedding": 5, "width": 6, "layers": 2, "kernel": 3}),
    "forecast conv recursive": Case("forecast", {"kind": "conv", "width": 6, "multistep": "recursive"}),
    "forecast linear": Case("forecast", {"kind": "linear"}, data={"static": []}),
    "embed": Case("embed", {"kind": "skipgram", "embedding": 8}, {"kind": "word", "lowercase": True}),
    "embed ngrams": Case("embed", {"kind": "cbow", "embedding": 8, "char_ngrams": [3, 4], "buckets": 50}),
}

CASES = {f"{name} {cell}": case for cell in (*CELLS, *OWN) for name, case in of_cell(cell)} | OTHERS
FAST = ["mask rg_lru", "tag features", "forecast recursive blocks", "caption s_lstm", "embed ngrams"]


def check(case: Case, folder: Path) -> None:
    run = trained(case.task, folder, case.model, text=case.text, data=case.data, features=case.features, cells=OWN)
    model, samples = CModel(run, folder), samples_of(run, folder, count=INPUTS)
    if not run.task.writes:
        compare_samples(run, model, samples)
        return
    for beam, n_best in ((1, 1), (4, 3)):
        compare_samples(run, model, samples, beam=beam, n_best=n_best, sample=False, max_length=12)
    check_streaming(run, model, samples[:: INPUTS // 5])


def check_streaming(run: Any, model: CModel, samples: list[Any]) -> None:
    """Token by token, with the state taken out and given back on the way, logits are those of one pass over all."""
    library, vocabulary = model.library, int(model.library.weft_vocabulary())
    target = run.task.codec.side("target")
    library.weft_state_bytes.restype = ctypes.c_size_t
    for sample in samples:
        text = samples[0].line if run.config.task == "lm" else "the cat sleeps, don't zürich"
        item = text if run.config.task == "lm" else (sample.given, text)
        if isinstance(sample.given, list):
            item = source_pair(Steps.of(np.array(sample.given)), text)
        (scored,) = run.score([item])
        source, logits = model.content(sample.line), ctypes.POINTER(ctypes.c_float)()
        begun = library.weft_begin(model.model, ctypes.byref(model.options), source, ctypes.c_size_t(len(source)))
        assert begun == 0
        read = [*target.encode(text), EOS]
        before = [*run.task.source.encode(sample.given), EOS, SOS] if "prefix" in str(type(run.model)) else [SOS]
        for token in before[:-1]:
            assert library.weft_next(model.model, token, ctypes.byref(logits)) == 0
        found = []
        for place, token in enumerate([before[-1], *read[:-1]]):
            if place == 2:
                saved = ctypes.create_string_buffer(library.weft_state_bytes(model.model))
                library.weft_get_state(model.model, saved)
                library.weft_next(model.model, 7, ctypes.byref(logits))
                assert library.weft_set_state(model.model, saved, ctypes.c_size_t(len(saved))) == 0
            assert library.weft_next(model.model, token, ctypes.byref(logits)) == 0
            row = torch.from_numpy(np.ctypeslib.as_array(logits, (vocabulary,)).copy())
            found.append(float(row.log_softmax(-1)[read[place]]))
        np.testing.assert_allclose(found, scored.log_probabilities, atol=1e-4)


@pytest.mark.parametrize("name", FAST)
def test_answers_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name not in FAST])
def test_answers_of_every_task_kind_and_cell_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path)
