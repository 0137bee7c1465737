"""Every kind of network goes the whole way: file, training, run folder, loading, answers; alone and in a beam."""

from __future__ import annotations

import pytest

import weft

RNN = {"kind": "rnn", "embedding": 8, "hidden": 8}
TRANSFORMER = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}
CONV = {"kind": "conv", "embedding": 8, "width": 8}
CASES = {
    "lm-conv": ("lm", CONV),
    "lm-transformer": ("lm", TRANSFORMER),
    "lm-learned": ("lm", TRANSFORMER | {"positions": "learned"}),
    "mask-rnn": ("mask", RNN),
    "mask-transformer": ("mask", TRANSFORMER | {"positions": "learned"}),
    "classify-transformer": ("classify", TRANSFORMER),
    "tag-transformer": ("tag", TRANSFORMER | {"characters": 4}),
    "translate-transformer": ("translate", {"encoder": TRANSFORMER, "decoder": TRANSFORMER}),
    "translate-mixed": ("translate", {"encoder": TRANSFORMER, "decoder": RNN | {"context": "first"}}),
    "translate-other": ("translate", {"encoder": RNN, "decoder": TRANSFORMER}),
}
INPUTS = {
    "lm": ["the cat", "a"],
    "mask": ["the <mask> runs", "a", "[MASK] cat<mask>"],
    "classify": ["the red and the cow", "the fox"],
    "tag": ["the cat runs.", ["a", "dog"]],
    "translate": ["one two", "three"],
}


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_run_answers_and_scores_as_the_trained_one(case, labelled, texts, tagged, pairs, tmp_path):
    task, model = CASES[case]
    path = {"lm": texts, "mask": texts, "classify": labelled, "tag": tagged, "translate": pairs}[task]
    config = {"task": task, "data": {"train": path}, "model": model, "train": {"steps": 3}}
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    again = weft.load(tmp_path / "run")
    assert again.config == run.config
    assert again.predict(INPUTS[task]) == run.predict(INPUTS[task])
    assert again.evaluate(path).metrics == run.evaluate(path).metrics
    if task in ("lm", "translate"):
        assert len(again.predict(INPUTS[task], beam=3, n_best=2, max_length=12)[0].candidates) == 2


def test_answers_do_not_depend_on_their_neighbours(pairs, tmp_path):
    model = {"encoder": TRANSFORMER, "decoder": TRANSFORMER}
    config = {"task": "translate", "data": {"train": pairs}, "model": model, "train": {"steps": 3}}
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    inputs = ["one", "two three four five", "six one two"]
    together = run.predict(inputs, beam=3, n_best=2)
    for text, answer in zip(inputs, together, strict=True):
        [alone] = run.predict([text], beam=3, n_best=2)
        assert [candidate.text for candidate in alone.candidates] == [candidate.text for candidate in answer.candidates]
        assert alone.score == pytest.approx(answer.score, abs=1e-5)
