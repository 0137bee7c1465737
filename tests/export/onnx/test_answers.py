"""The runner answers as the run does, with every kind of network: 50 inputs together, padded, and some alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.export.onnx.built import assert_like, build_run, exported, lines

from weft.export.onnx.samples import sample_inputs, sample_pairs

RNN = {"kind": "rnn", "embedding": 6, "hidden": 8}
TRANSFORMER = {"kind": "transformer", "width": 8, "heads": 2, "layers": 2, "max_positions": 64}
WORD = {"kind": "word"}
INPUTS = 50
PAIRS = "".join(f"{one}\t{one[::-1]}\t{len(one) % 2}\n" for one in lines())


def tree(encoder: Any, decoder: Any) -> dict[str, Any]:
    return {"model": {"encoder": encoder, "decoder": decoder}, "text": WORD}


READERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"classify {pooling}": ("classify", {"model": {**RNN, "pooling": pooling}, "text": WORD})
        for pooling in ("last", "mean", "max", "attention", "first")
    },
    "classify by letters": (
        "classify",
        {"model": {**RNN, "bidirectional": True, "layers": 2}, "text": {"kind": "char"}},
    ),
    "classify transformer": ("classify", {"model": {**TRANSFORMER, "segments": 2}, "text": {"frame": "bert"}}),
    "classify pairs": (
        "classify",
        {"model": TRANSFORMER, "data": {"text": 0, "pair": 1, "label": 2}, "content": PAIRS},
    ),
    "regress": ("regress", {"model": RNN, "text": WORD}),
    "regress transformer": ("regress", {"model": {**TRANSFORMER, "positions": "rotary"}}),
    "tag": ("tag", {"model": {**RNN, "characters": 4}, "text": WORD}),
    "tag by convolutions of letters": (
        "tag",
        {"model": {**RNN, "characters": {"kind": "cnn"}, "crf": True}, "text": WORD},
    ),
    "tag transformer": ("tag", {"model": {**TRANSFORMER, "characters": 0, "crf": True}, "text": WORD}),
    "mask": ("mask", {"model": RNN, "text": {"kind": "bpe", "size": 300}}),
    "mask transformer": ("mask", {"model": TRANSFORMER, "text": WORD}),
    "embed": ("embed", {"model": {"kind": "skipgram", "embedding": 8}}),
    "embed ngrams": ("embed", {"model": {"kind": "cbow", "embedding": 8, "char_ngrams": [3, 4], "buckets": 50}}),
    **{
        f"forecast {kind} {multistep}": ("forecast", {"model": {"kind": kind, "multistep": multistep, **options}})
        for kind, options in {
            "rnn": {"embedding": 5, "hidden": 6},
            "transformer": {"width": 8, "heads": 2, "layers": 2},
            "conv": {"embedding": 5, "width": 6, "layers": 2, "kernel": 3},
            "linear": {},
        }.items()
        for multistep in ("direct", "recursive")
        if (kind, multistep) != ("linear", "recursive")
    },
}
WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("lm", {"model": {**RNN, "layers": 2}, "text": WORD}),
    "lm transformer": ("lm", {"model": TRANSFORMER, "text": {"kind": "char"}}),
    "lm rotary": ("lm", {"model": {**TRANSFORMER, "positions": "rotary"}, "text": {"kind": "bpe", "size": 300}}),
    "lm conv": ("lm", {"model": {"kind": "conv", "embedding": 6, "width": 8, "layers": 2}, "text": WORD}),
    "translate rnn": ("translate", tree(RNN, RNN)),
    "translate reversed": (
        "translate",
        tree({**RNN, "reverse_source": True, "bidirectional": True}, {**RNN, "context": "every"}),
    ),
    "translate inside": ("translate", tree(RNN, {**RNN, "context": "attention", "attention": "additive"})),
    "translate first": ("translate", tree(RNN, {**RNN, "context": "first"})),
    "translate transformer": ("translate", tree(TRANSFORMER, TRANSFORMER)),
    "translate mixed": ("translate", tree(TRANSFORMER, RNN)),
    "translate prefix": (
        "translate",
        {"model": {"kind": "prefix", "decoder": TRANSFORMER}, "text": {**WORD, "shared": True}},
    ),
}


def records(found: Any) -> Any:
    return [one.record() for one in found]


@pytest.mark.parametrize("name", READERS)
def test_an_answer_is_that_of_the_run(name: str, tmp_path: Path) -> None:
    task, sections = READERS[name]
    run = build_run(task, tmp_path, **sections)
    runner, inputs = exported(run, tmp_path / "out"), sample_inputs(run, INPUTS)
    wanted = records(run.predict(inputs))
    assert_like(wanted, runner.predict(inputs))
    for number in range(0, INPUTS, 7):
        assert_like([wanted[number]], runner.predict([inputs[number]]))


@pytest.mark.parametrize("name", WRITERS)
def test_texts_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    task, sections = WRITERS[name]
    run = build_run(task, tmp_path, **sections)
    runner, inputs = exported(run, tmp_path / "out"), sample_inputs(run, INPUTS)
    options: list[dict[str, Any]] = [{"beam": 1}, {"beam": 4, "n_best": 3}]
    if name in ("lm", "translate rnn", "translate transformer"):
        options += [
            {"beam": 3, "n_best": 2, "length_penalty": 0.0, "min_length": 3},
            {"beam": 3, "stop": "finished", "finished": 2, "n_best": 2, "length_penalty": 1.7},
            {"beam": 2, "repetition_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": 0.1},
            {"sample": True, "seed": 3, "n_best": 2, "temperature": 0.8},
            {"sample": True, "top_k": 5, "top_p": 0.9, "min_p": 0.05},
        ]
    for own in options:
        given = {"max_length": 9, **own}
        assert_like(records(run.predict(inputs, **given)), runner.predict(inputs, **given), place=str(own))
    for number in range(0, INPUTS, 10):
        alone = runner.predict([inputs[number]], beam=4, max_length=9)
        assert_like(records(run.predict([inputs[number]], beam=4, max_length=9)), alone)
        for beam in (1, 3):
            pieces = list(runner.stream(inputs[number], beam=beam, max_length=9))
            assert "".join(pieces) == runner.predict([inputs[number]], beam=beam, max_length=9)[0]["text"]
            assert pieces == list(run.stream(inputs[number], beam=beam, max_length=9))
    pairs = sample_pairs(run, inputs)
    assert_like(records(run.score(pairs)), runner.score(pairs))
