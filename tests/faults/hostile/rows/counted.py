"""Models that count or fit themselves: tables that are cut, unsorted, negative or NaN, and statistics of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load, save
from tests.faults.hostile.change import Change, content, put, rewrite
from tests.faults.hostile.row import EITHER, Expected, Row, refused

WEIGHTS, STATISTICS = "model.safetensors", "statistics.json"
Table = np.ndarray[Any, Any]


def _table(name: str, alter: Callable[[Table], Table]) -> Change:
    """One tensor made from what it was; the others stay."""

    def write(data: bytes) -> bytes:
        found = load(data)
        found[name] = np.ascontiguousarray(alter(found[name].copy()))
        return save(found)

    return rewrite(WEIGHTS, write)


def _filled(number: float) -> Callable[[Table], Table]:
    return lambda table: np.full_like(table, number)


def _first(number: float) -> Callable[[Table], Table]:
    """The first number of a table."""

    def alter(table: Table) -> Table:
        table.flat[0] = number
        return table

    return alter


def _row(base: str, name: str, change: Change, expected: Expected | None = None) -> Row:
    return Row(f"{base} tables", name, change, expected or refused(WEIGHTS), base=base)


UNSORTED = refused(WEIGHTS, "sorted|ascending|order|range")

NGRAM = [
    _row("ngram", "keys from the last to the first", _table("keys2", lambda keys: keys[::-1]), UNSORTED),
    _row("ngram", "two keys exchanged", _table("keys3", lambda keys: keys[[1, 0, *range(2, len(keys))]]), UNSORTED),
    _row("ngram", "a key twice", _table("keys3", lambda keys: keys[[0, 0, *range(2, len(keys))]]), UNSORTED),
    _row("ngram", "a negative key", _table("keys2", _first(-1)), UNSORTED),
    _row("ngram", "keys beyond the contexts", _table("keys3", lambda keys: keys + 2**61), UNSORTED),
    _row("ngram", "keys of half the bytes", _table("keys2", lambda keys: keys.astype(np.int32))),
    _row("ngram", "fewer keys than probabilities", _table("keys2", lambda keys: keys[:-1])),
    _row("ngram", "no n-grams of order 2", _table("keys2", lambda keys: keys[:0])),
    _row("ngram", "probabilities above 1", _table("log_probabilities2", _filled(0.5)), refused(WEIGHTS, "more than 1")),
    _row("ngram", "a probability that is NaN", _table("log_probabilities1", _first(float("nan")))),
    _row("ngram", "a backoff of e^50", _table("backoffs1", _first(50.0)), refused(WEIGHTS, "backoff")),
    _row("ngram", "an infinite backoff", _table("backoffs2", _first(float("inf")))),
    _row("ngram", "order 4,000,000,000", put("config.json", "model.order", 4_000_000_000), refused("order")),
    _row("ngram", "order 0", put("config.json", "model.order", 0), refused("order")),
    _row("ngram", "order 7 with tables of order 3", put("config.json", "model.order", 7)),
    _row("ngram", "order 2 with tables of order 3", put("config.json", "model.order", 2)),
    _row("ngram", "cut in the tables", rewrite(WEIGHTS, lambda data: data[:-20])),
]
HMM = [
    _row("hmm", "negative transitions", _table("transitions", lambda table: -table)),
    _row("hmm", "a transition of 0", _table("transitions", _filled(0.0))),
    _row("hmm", "a transition that is NaN", _table("transitions", _first(float("nan")))),
    _row("hmm", "transitions of one tag less", _table("transitions", lambda table: table[:-1])),
    _row("hmm", "a prior of 0", _table("prior", _first(0.0))),
    _row("hmm", "negative counts", _table("lexicon.words.counts", lambda counts: -counts - 1)),
    _row("hmm", "offsets that fall", _table("lexicon.words.offsets", lambda offsets: offsets[::-1])),
    _row("hmm", "offsets beyond the counts", _table("lexicon.words.offsets", lambda offsets: offsets + 2**40)),
    _row("hmm", "endings from the last to the first", _table("lexicon.tree.keys", lambda keys: keys[::-1])),
    _row("hmm", "a negative ending", _table("lexicon.tree.keys", _first(-5))),
    _row("hmm", "fewer endings than counts", _table("lexicon.tree.keys", lambda keys: keys[:-1])),
    _row("hmm", "order 9", put("config.json", "model.order", 9), refused("order")),
    _row("hmm", "order 1 with tables of order 2", put("config.json", "model.order", 1)),
]
BAG = [
    _row("bag", "buckets from the last to the first", _table("buckets", lambda buckets: buckets[::-1]), UNSORTED),
    _row("bag", "a negative bucket", _table("buckets", _first(-1)), UNSORTED),
    _row("bag", "buckets beyond all", _table("buckets", lambda buckets: buckets + 2**30), UNSORTED),
    _row("bag", "fewer buckets than weights", _table("buckets", lambda buckets: buckets[:-1])),
    _row("bag", "weights that are NaN", _table("weights", _filled(float("nan")))),
    _row("bag", "weights of one label more", _table("weights", lambda table: np.repeat(table, 2, axis=1))),
    _row("bag", "an idf that is infinite", _table("idf", _first(float("inf")))),
    _row("bag", "negative idf", _table("idf", lambda idf: -idf), EITHER),
    _row("bag", "a billion buckets", put("config.json", "model.buckets", 10**9), refused("buckets")),
]
VECTORS = [
    _row("vectors", "negative counts", _table("counts", lambda counts: -counts)),
    _row("vectors", "counts of 0", _table("counts", _filled(0))),
    _row("vectors", "vectors that are NaN", _table("inputs", _filled(float("nan")))),
    _row("vectors", "one infinite number", _table("inputs", _first(float("inf")))),
    _row("vectors", "vectors of one number less", _table("inputs", lambda table: table[:, :-1])),
    _row("vectors", "a vector missing", _table("inputs", lambda table: table[:-1])),
    _row("vectors", "vectors of zeros", _table("inputs", _filled(0.0)), EITHER),
    _row("vectors", "the largest numbers", _table("inputs", _filled(3.4e38)), EITHER),
    _row("vectors", "a size of 10^9", put("config.json", "model.embedding", 10**9), refused("embedding")),
]


def _statistics(name: str, change: Change) -> Row:
    return Row("statistics", name, change, refused(STATISTICS), base="numbers")


STATISTICS_ROWS = [
    _statistics("empty", content(STATISTICS, b"")),
    _statistics("a list", content(STATISTICS, b"[]")),
    _statistics("without the target", content(STATISTICS, b"{}")),
    _statistics("null", put(STATISTICS, "target", None)),
    _statistics("cut", rewrite(STATISTICS, lambda data: data[: len(data) // 2])),
    _statistics("a scale of 0", put(STATISTICS, "target.scale", [0.0])),
    _statistics("a negative scale", put(STATISTICS, "target.scale", [-1.0])),
    _statistics("a scale that is text", put(STATISTICS, "target.scale", ["1"])),
    _statistics("a mean that is true", put(STATISTICS, "target.mean", [True])),
    _statistics("a mean that is NaN", put(STATISTICS, "target.mean", [float("nan")])),
    _statistics("two means", put(STATISTICS, "target.mean", [1.0, 2.0])),
    _statistics("a million means", put(STATISTICS, "target.mean", [0.0] * 1_000_000)),
    _statistics("a mean of 10^300", put(STATISTICS, "target.mean", [1e300])),
]

ROWS = [*NGRAM, *HMM, *BAG, *VECTORS, *STATISTICS_ROWS]
