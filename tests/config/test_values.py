"""Values that no setting can have, and that once failed late: at the first save, at the first validation, in torch."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

import weft
from weft.catalog import TASKS
from weft.config import parse_overrides, read_config, validate
from weft.config.tree import nest
from weft.errors import ConfigError, RunError
from weft.settings import show
from weft.training import choose_device

TREE = {"task": "classify", "data": {"train": "nowhere.tsv"}}


def read(path: str, value):
    return read_config(TREE, {path: value})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "model.cell",
            {"kind": "lstm", "forget_bias": math.nan},
            r"model\.cell\.forget_bias = nan: should be a finite",
        ),
        ("model.cell.forget_bias", math.inf, r"model\.cell\.forget_bias = inf: should be a finite number"),
        ("model.cell.forget_bias", -1e10, r"model\.cell\.forget_bias = -10000000000\.0: should be greater than"),
        ("train.rate", math.nan, r"train\.rate = nan: should be a finite number"),
        ("model.hidden", [8, math.inf], r"model\.hidden = inf: should be a finite number"),
        ("model.hidden", [8, 10**6], r"model\.hidden = 1000000: is more than 131,072, the limit"),
        (
            "train.teacher_forcing",
            {"kind": "linear", "k": math.inf},
            r"train\.teacher_forcing\.k = inf: should be a finite",
        ),
        ("seed", 2**64, r"seed = 18446744073709551616: is more than 18,446,744,073,709,551,615, the limit"),
        ("seed", -1, r"seed = -1: should be greater than or equal to 0"),
        ("seed", 10**5000, r"seed: a number of more than 40 digits"),
        ("train.threads", 100_000, r"train\.threads = 100000: is more than 1,024, the limit"),
        (
            "train.metric",
            "bleu",
            r'train\.metric = "bleu": is not measured here \(choose from accuracy, exact, f1, loss, micro_f1\)',
        ),
        ("data.train", os.fsdecode(b"b\xff.tsv"), r'data\.train = "b\\udcff\.tsv": is not UTF-8.*\(rename the file\)'),
        ("data.valid", ["a.tsv", "\ud800"], r'data\.valid = "\\ud800": is not UTF-8'),
        ("name", "\udcff", r'name = "\\udcff": is not UTF-8.*\(write it in UTF-8\)'),
        ("data.train", [], r"data\.train: names no file"),
        ("data.test", ["a.tsv", ""], r"data\.test: names no file"),
        ("data.text", 10**9, r"data\.text: 1000000000 is more than 65,536, the limit"),
        ("name", "x" * 10**6 + "\udcff", r'name = "x{80}…": is not UTF-8'),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 and value.isascii() else "",
)
def test_it_is_refused_by_its_path_when_the_configuration_is_read(path, value, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        read(path, value)


def test_a_tree_without_end_is_refused_and_not_walked():
    endless: dict = {}
    endless["a"] = endless
    with pytest.raises(ConfigError, match=r"model: more than 64 tables and lists in each other"):
        read("model", endless)
    with pytest.raises(ConfigError, match="more than 64 tables"):
        nest(".".join("a" * 1000), 1)
    lists: list = []
    lists.append(lists)
    with pytest.raises(ConfigError, match=r"train: more than 64 tables"):
        read("train.freeze", lists)


def test_the_largest_seed_starts_every_source_of_chance():
    from weft.training import set_seed

    assert validate(TREE | {"seed": 2**64 - 1}).seed == 2**64 - 1
    set_seed(2**64 - 1)


@pytest.mark.parametrize("name", ["[1]", "[x].tsv", '["a.tsv"]', "2024", "a[1].tsv"])
def test_a_file_that_exists_is_that_file_whatever_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("a\tb\n", encoding="utf-8")
    assert parse_overrides([f"data.train={name}"]) == {"data": {"train": name}}
    assert parse_overrides(['data.valid=["a.tsv", "b.tsv"]']) == {"data": {"valid": ["a.tsv", "b.tsv"]}}


def test_an_out_that_is_not_utf8_is_refused_before_the_data_is_read(tmp_path):
    out = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff")
    with pytest.raises(RunError, match=r"b\\udcff\": is not UTF-8 \(choose another --out\)"):
        weft.train(TREE, out=out, quiet=True)


def test_a_device_that_holds_no_numbers_is_none():
    with pytest.raises(ConfigError, match='"meta" cannot be used: it holds no numbers'):
        choose_device("meta")


def test_half_precision_without_a_gpu_is_told_before_the_data_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r'train\.precision = "fp16": is for CUDA'):
        weft.train({**TREE, "train": {"precision": "fp16", "device": "cpu"}}, quiet=True)


def test_long_values_are_shown_by_their_beginning():
    assert show("x" * 100) == f'"{"x" * 80}…"'
    assert show([1] * 100) == f"{str([1] * 100)[:80]}…"
    assert show("é") == '"é"'


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_chosen_by_something_that_it_measures(task):
    assert TASKS[task].metric in TASKS[task].metrics
