"""Ranges and choices as they are written on a command line."""

from __future__ import annotations

import pytest

from weft.errors import ConfigError
from weft.sweep import Choice, Range, read_space


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("train.rate=1e-4..1e-2", Range("train.rate", 1e-4, 1e-2, True)),
        ("train.rate=0.001..0.002", Range("train.rate", 0.001, 0.002, False)),
        ("train.rate=0.0001..0.01", Range("train.rate", 0.0001, 0.01, True)),
        ("train.rate=1e-3..2e-3", Range("train.rate", 1e-3, 2e-3, True)),
        ("model.dropout=0..0.5", Range("model.dropout", 0, 0.5, False)),
        ("model.hidden=32..512", Range("model.hidden", 32, 512, False)),
        ("model.hidden=4..512", Range("model.hidden", 4, 512, True)),
        ("a.b=-2..3", Range("a.b", -2, 3, False)),
        ("model.cell=gru,lstm", Choice("model.cell", ("gru", "lstm"))),
        ("train.warmup=0,100", Choice("train.warmup", (0, 100))),
        ("text.lowercase=true,false", Choice("text.lowercase", (True, False))),
    ],
)
def test_what_is_searched(word, expected):
    assert read_space([word]) == ([expected], [])


@pytest.mark.parametrize(
    "word", ["train.rate=0.1", "pairs.tsv", "../a.tsv", 'data.train=["a.tsv", "b.tsv"]', "name=x..y"]
)
def test_other_words_stay_settings_and_files(word):
    assert read_space([word]) == ([], [word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.rate=2..1"], "2 is not below 1"),
        (["train.rate=0..1e-2"], "has no logarithm"),
        (["a=1,2", "a=1..3"], "a: is given twice"),
        (["a=1,,2"], "'' is not a plain value"),
        (["a=1,[2]"], r"\[2\] is not a plain value"),
        (["a=x,x"], "has a value twice"),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        read_space(words)
