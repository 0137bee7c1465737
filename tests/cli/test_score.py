"""weft score and Run.score: log-probability and rank of each token of a given text."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import weft as package
from weft.cli.score import show_number
from weft.decoding import DecodeConfig, search
from weft.errors import ConfigError, DataError
from weft.text import EOS, UNK

SMALL = {"embedding": 8, "hidden": 8}
BLOCKS = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}
MODELS = {
    ("lm", "rnn"): SMALL,
    ("lm", "transformer"): BLOCKS,
    ("translate", "rnn"): {"encoder": SMALL, "decoder": SMALL},
    ("translate", "transformer"): {"encoder": BLOCKS, "decoder": BLOCKS},
}


def train(task, kind, data, out):
    text = {"kind": "word"}
    config = {"task": task, "data": {"train": data}, "model": MODELS[task, kind], "text": text, "train": {"steps": 3}}
    return package.train(config, out=out, quiet=True)


@pytest.fixture
def files(texts, pairs):
    return {"lm": texts, "translate": pairs}


def found_by_search(run, source, limit):
    """The best hypotheses of one source."""
    config = DecodeConfig(beam=12, n_best=12, max_length=limit)
    if run.config.task == "lm":
        return search(run.model, None, 1, config)[0]
    ids = torch.tensor([[*run.task.source.encode(source), EOS]])
    return search(run.model, run.model.encode(ids, torch.tensor([ids.size(1)])), 1, config)[0]


@pytest.mark.covers("D6")
@pytest.mark.parametrize(("task", "kind"), MODELS)
def test_the_full_pass_gives_the_numbers_of_the_search(task, kind, files, tmp_path):
    run = train(task, kind, files[task], tmp_path / "run")
    tokenizer = run.task.codec.side("target")
    checked = 0
    for hypothesis in found_by_search(run, "one two three", 6):
        text = tokenizer.decode(hypothesis.tokens)
        if UNK in hypothesis.tokens or tokenizer.encode(text) != list(hypothesis.tokens):
            continue
        (scored,) = run.score([text] if task == "lm" else [("one two three", text)])
        logs = hypothesis.log_probabilities
        assert_close(scored.log_probabilities[: len(logs)], logs, rtol=1e-5, atol=1e-5)
        assert scored.tokens == (*tokenizer.tokens(hypothesis.tokens), "<eos>")
        checked += 1
    assert checked


@pytest.mark.covers("I5")
def test_ranks_count_likelier_tokens(texts, tmp_path):
    run = train("lm", "rnn", texts, tmp_path / "run")
    (greedy,) = run.predict([""], beam=1, max_length=5)
    best = greedy.candidates[0]
    (scored,) = run.score([best.text])
    likeliest = [rank for rank, log in zip(scored.ranks, scored.log_probabilities, strict=True) if log > math.log(0.5)]
    assert set(likeliest) <= {1}
    assert all(1 <= rank <= len(run.task.tokenizer) for rank in scored.ranks)
    assert scored.ranks[0] == 1, "greedy search takes the likeliest token"


def test_a_text_has_the_same_score_alone_and_in_a_batch(texts, tmp_path):
    run = train("lm", "transformer", texts, tmp_path / "run")
    lines = ["the cat sleeps 3 times", "the dog", "the dog runs 140 times and runs"]
    together = run.score(lines)
    assert [scored.text for scored in together] == lines
    for line, scored in zip(lines, together, strict=True):
        assert_close(run.score([line])[0].log_probabilities, scored.log_probabilities, rtol=1e-5, atol=1e-5)


@pytest.mark.covers("D6")
def test_the_sum_is_that_of_evaluation(weft, pairs, tmp_path):
    run = train("translate", "transformer", pairs, tmp_path / "run")
    outcome = weft("score", "run", pairs, "--json")
    assert outcome.code == 0, outcome.err
    *lines, summary = map(json.loads, outcome.out.splitlines())
    assert len(lines) == summary["texts"] == 300
    assert summary["perplexity"] == pytest.approx(run.evaluate(pairs, beam=1).metrics["perplexity"], rel=1e-4)
    assert summary["log_probability"] == pytest.approx(sum(line["log_probability"] for line in lines))
    assert set(lines[0]) == {"source", "text", "log_probability", "tokens", "pieces", "log_probabilities", "ranks"}


@pytest.mark.covers("I5")
def test_a_table_for_each_line_and_a_summary(weft, texts, tmp_path):
    train("lm", "rnn", texts, tmp_path / "run")
    Path("two.txt").write_text("the cat\n\nthe dog sleeps\n", encoding="utf-8")
    outcome = weft("score", "run", "two.txt")
    assert outcome.code == 0, outcome.err
    words = [line.split() for line in outcome.out.splitlines()]
    assert [row[0] for row in words if len(row) == 4 and row[1].endswith("%")] == (
        ["the", "cat", "<eos>", "the", "dog", "sleeps", "<eos>"]
    )
    assert outcome.out.splitlines()[-1].startswith("texts 2, tokens 7, log probability -")


def test_a_text_is_printed_unchanged(weft, texts, tmp_path):
    config = {"task": "lm", "data": {"train": texts}, "model": SMALL, "text": {"kind": "char"}, "train": {"steps": 3}}
    package.train(config, out=tmp_path / "run", quiet=True)
    text = "[bold]a\\" + " and a line that is longer than its table is wide" * 3
    Path("one.txt").write_text(f"{text}\n", encoding="utf-8")
    lines = weft("score", "run", "one.txt").out.splitlines()
    assert lines[0] == text
    assert [line.split()[0] for line in lines if "%" in line][5:8] == ["]", "a", "\\"]


def test_a_text_that_cannot_be_scored_is_one_line(weft, texts, labelled, tmp_path):
    run = train("lm", "rnn", texts, tmp_path / "run")
    with pytest.raises(DataError, match="give the text alone"):
        run.score([("one", "two")])
    config = {"task": "classify", "data": {"train": labelled}, "model": SMALL, "train": {"steps": 2}}
    with pytest.raises(ConfigError, match='task = "classify": gives no probability to texts'):
        package.train(config, out=tmp_path / "classify", quiet=True).score(["red"])
    assert weft("score", "classify", labelled).code == 2
    assert weft("score", "run", "missing.txt").code == 2


def test_counts_are_whole_numbers() -> None:
    assert show_number(22_850) == "22,850"
    assert [show_number(value) for value in (3, -52_345.6, 34.2171, 0.0123, float("inf"))] == [
        "3",
        "-52,346",
        "34.22",
        "0.0123",
        "inf",
    ]
