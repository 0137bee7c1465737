"""Models in C: the answers of every task are those of the run, on 50 texts of different lengths."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from tests.export.c.models import RNN_, TRANSFORMER, CModel, compare_lines, lines, make_run

import weft
from weft.text import SOS

pytestmark = pytest.mark.filterwarnings("ignore")

LM = RNN_ | {"cell": "lstm", "layers": 2}
SIDE = {"encoder": RNN_ | {"cell": "gru"}, "decoder": RNN_ | {"cell": "gru"}}
BOTH = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}

FAST = [
    ("tag", RNN_ | {"cell": "gru", "crf": True, "characters": 8}, None, None),
    ("classify", TRANSFORMER, {"kind": "word"}, None),
    ("translate", SIDE, {"kind": "word"}, {"beam": 4, "n_best": 3, "max_length": 20}),
]
SLOW = [
    ("tag", TRANSFORMER, None, None),
    ("tag", RNN_ | {"cell": "lstm", "bidirectional": True, "characters": 0}, None, None),
    (
        "classify",
        RNN_ | {"cell": "gru", "pooling": "attention", "bidirectional": True},
        {"kind": "bpe", "size": 300},
        None,
    ),
    ("classify", RNN_ | {"cell": "lstm", "pooling": "last"}, {"kind": "char"}, None),
    ("regress", RNN_ | {"cell": "gru"}, {"kind": "unigram", "size": 300}, None),
    ("translate", SIDE, {"kind": "word"}, {"beam": 1, "max_length": 20}),
    ("translate", SIDE, {"kind": "word"}, {"beam": 3, "stop": "finished", "max_length": 20}),
    (
        "translate",
        SIDE,
        {"kind": "word"},
        {"beam": 2, "repetition_penalty": 1.3, "frequency_penalty": 0.2, "max_length": 20},
    ),
    ("translate", BOTH, {"kind": "bpe", "size": 300}, {"beam": 5, "length_penalty": 0.6, "max_length": 20}),
    (
        "translate",
        BOTH,
        {"kind": "word"},
        {"sample": True, "beam": 1, "top_k": 7, "top_p": 0.9, "n_best": 2, "max_length": 20},
    ),
    (
        "translate",
        {"kind": "prefix", "decoder": TRANSFORMER},
        {"shared": True, "kind": "bpe", "size": 300},
        {"max_length": 20},
    ),
    ("lm", TRANSFORMER, {"kind": "word"}, {"beam": 3, "sample": False, "max_length": 20}),
    ("lm", {"kind": "conv", "width": 16, "embedding": 8}, {"kind": "char"}, {"sample": True, "max_length": 20}),
]


def _check(task, model, text, decode, folder):
    run = make_run(task, folder, model, text=text, decode=decode)
    compare_lines(run, CModel(run, folder), lines(50))


@pytest.mark.parametrize(
    ("task", "model", "text", "decode"), FAST, ids=lambda value: value if isinstance(value, str) else ""
)
def test_answers_are_those_of_the_run(task, model, text, decode, tmp_path):
    _check(task, model, text, decode, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "text", "decode"), SLOW, ids=lambda value: value if isinstance(value, str) else ""
)
def test_answers_of_every_kind_are_those_of_the_run(task, model, text, decode, tmp_path):
    _check(task, model, text, decode, tmp_path)


def test_a_language_model_draws_the_same_texts_and_streams_what_it_reads_whole(tmp_path):
    run = make_run("lm", tmp_path, LM, text={"kind": "word"}, decode={"sample": True, "top_p": 0.95, "max_length": 20})
    model = CModel(run, tmp_path)
    compare_lines(run, model, lines(20))
    library, rng = model.library, np.random.default_rng(0)
    vocabulary = int(library.weft_vocabulary())
    tokens = [SOS, *rng.integers(5, vocabulary, 30).tolist()]
    with torch.no_grad():
        hidden = run.model(torch.tensor([tokens]))
        expected = run.model.output(hidden)[0].numpy()
    assert library.weft_begin(model.model, None, b"", ctypes.c_size_t(0)) == 0
    logits, saved = ctypes.POINTER(ctypes.c_float)(), None
    for place, token in enumerate(tokens):
        if place == 12:  # the state is taken out, the model reads something else, and the state is given back
            library.weft_state_bytes.restype = ctypes.c_size_t
            saved = ctypes.create_string_buffer(library.weft_state_bytes(model.model))
            library.weft_get_state(model.model, saved)
            library.weft_next(model.model, 7, ctypes.byref(logits))
            assert library.weft_set_state(model.model, saved, ctypes.c_size_t(len(saved))) == 0
            assert library.weft_set_state(model.model, saved, ctypes.c_size_t(len(saved) - 1)) < 0
        assert library.weft_next(model.model, token, ctypes.byref(logits)) == 0
        np.testing.assert_allclose(np.ctypeslib.as_array(logits, (vocabulary,)), expected[place], atol=1e-4)
    assert library.weft_next(model.model, vocabulary, ctypes.byref(logits)) < 0


COUNTED = [
    ("classify", {"kind": "bag"}, None),
    ("tag", {"kind": "hmm", "order": 2}, None),
    ("lm", {"kind": "ngram", "order": 3}, {"sample": True, "top_p": 1.0, "max_length": 15}),
]
COUNTED_SLOW = [
    ("classify", {"kind": "bag", "width": 8}, None),
    ("regress", {"kind": "bag"}, None),
    ("tag", {"kind": "hmm", "order": 1}, None),
    (
        "lm",
        {"kind": "ngram", "order": 3, "smoothing": {"kind": "none"}},
        {"sample": True, "top_p": 1.0, "max_length": 15},
    ),
]


def _check_counted(task, model, decode, folder):
    data = make_run(task, folder, RNN_ | {"cell": "gru"}).config.data.train
    config = {"task": task, "data": {"train": data}, "model": model, **({"decode": decode} if decode else {})}
    config |= {"text": {"kind": "word"}} if task == "lm" else {}
    run = weft.train(config, out=folder / "run", quiet=True)
    compare_lines(run, CModel(run, folder), lines(50))


@pytest.mark.parametrize(
    ("task", "model", "decode"), COUNTED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_answers_of_counts_are_those_of_the_run(task, model, decode, tmp_path):
    _check_counted(task, model, decode, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "decode"), COUNTED_SLOW, ids=lambda value: value if isinstance(value, str) else ""
)
def test_answers_of_all_counts_are_those_of_the_run(task, model, decode, tmp_path):
    _check_counted(task, model, decode, tmp_path)


def test_large_numbers_are_printed_as_predict_prints_them(tmp_path):
    texts = lines(50)
    rows = "".join(f"{text}\t{number * 98_765.4 - 2e6}\n" for number, text in enumerate(texts) if "\t" not in text)
    (tmp_path / "data.tsv").write_text(rows)
    config = {"task": "regress", "data": {"train": str(tmp_path / "data.tsv")}, "model": {"kind": "bag"}}
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    model = CModel(run, tmp_path)
    printed = [model.answer(text, probabilities=0) for text in texts]
    assert any(len(line.lstrip("-")) == 7 for line in printed)
    assert not any("e" in line or "." in line for line in printed if abs(float(line)) > 1e6)
    for line, answer in zip(printed, run.predict(texts), strict=True):
        np.testing.assert_allclose(float(line), float(answer.line()), rtol=1e-5)
