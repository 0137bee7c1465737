"""Which model a run keeps, when it validates, and what it shows of it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import weft
from weft.config import validate
from weft.errors import ConfigError
from weft.evaluate import Evaluation
from weft.run.job import MAX_UPDATES_BETWEEN_VALIDATIONS, MAX_VALIDATIONS, TrainingJob, set_up
from weft.run.prepare import prepare
from weft.run.resume import compare

SMALL = {"embedding": 8, "hidden": 8}
PAIR = {"encoder": SMALL, "decoder": SMALL}


@pytest.fixture
def sentences(tmp_path):
    """Pairs of more words than are shown as words, from too many to be a closed set."""
    draw = random.Random(0)
    words = [f"w{number}" for number in range(900)]
    rows = [[draw.choice(words) for _ in range(8)] for _ in range(60)]
    path = tmp_path / "sentences.tsv"
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows), encoding="utf-8")
    return str(path)


def test_spans_are_no_measure_of_tags_that_mark_none(tmp_path):
    """Known once the tags are, and told before the first update."""
    path = tmp_path / "a.conllu"
    rows = [f"1\ta{number}\t_\t{'NOUN' if number % 2 else 'VERB'}\t_\t_\t_\t_\t_\t_\n\n" for number in range(20)]
    path.write_text("".join(rows), encoding="utf-8")
    tree = {"task": "tag", "data": {"train": str(path)}, "model": SMALL, "train": {"metric": "span_f1"}}
    prepared = prepare(tree)
    with pytest.raises(ConfigError, match=r'train\.metric = "span_f1": is not measured here \(choose from acc'):
        set_up(prepared)


def train(tmp_path, path, **settings):
    tree = {"task": "translate", "data": {"train": path}, "model": PAIR, "train": {"steps": 2} | settings}
    return weft.train(tree, out=tmp_path / "run", quiet=True)


def names(text):
    """Which scores of texts are named."""
    return {name for name in ("bleu", "chrf", "exact", "wer", "cer", "perplexity") if re.search(rf"\b{name}\b", text)}


def test_words_and_sentences_are_shown_by_what_means_something_for_them(weft, pairs, sentences):
    settings = ["model.encoder.hidden=8", "model.decoder.hidden=8", "train.steps=2", "train.evaluate_every=2"]
    settings += ["decode.beam=1", "decode.max_length=9"]
    found = weft("train", "translate", pairs, "--out", "items", *settings)
    assert "chooses by exact: targets have 3 words in the median, and all are from 6" in found.err
    assert names(found.err) == {"exact", "wer", "chrf"}
    assert names(weft("evaluate", "items", pairs).out) == {"exact", "wer", "chrf"}
    assert {"bleu", "wer", "cer"} < set(json.loads(Path("items/report.json").read_text(encoding="utf-8"))["valid"])
    found = weft("train", "translate", sentences, "--out", "texts", *settings)
    assert "chooses by bleu: targets have 8 words in the median" in found.err
    assert names(found.err) == {"bleu", "chrf", "exact", "perplexity"}
    assert names(weft("compare", "items", "items/../items").out) == {"exact", "wer", "chrf"}
    assert names(weft("compare", "items", "items/../items", "--metric", "cer").out) == {"cer"}


def test_a_metric_that_was_asked_for_is_shown_and_gives_no_reason(weft, sentences):
    settings = ["train.steps=2", "train.metric=cer", "model.encoder.hidden=8", "model.decoder.hidden=8"]
    found = weft("train", "translate", sentences, *settings, "train.evaluate_every=2", "--out", "run")
    assert "chooses by" not in found.err
    assert len(re.findall(r"\bcer \d", found.err)) == 2, "at the validation and at the end"


def measured(monkeypatch, scores):
    """Let validations give these scores, each the error rate and the loss."""
    left = iter(scores)
    monkeypatch.setattr(
        TrainingJob, "measure", lambda job: Evaluation(dict(zip(("wer", "loss"), next(left), strict=True)), {})
    )


def test_a_lower_error_rate_is_better_and_ties_go_to_the_lower_loss(tmp_path, pairs, monkeypatch):
    measured(monkeypatch, [(1.0, 4.0), (0.5, 3.0), (0.5, 2.0), (0.5, 2.0), (0.9, 1.0)])
    run = train(tmp_path, pairs, steps=5, evaluate_every=1, metric="wer")
    assert run.report["best_step"] == 3


def test_it_does_not_stop_while_the_loss_falls(tmp_path, pairs, monkeypatch):
    measured(monkeypatch, [(1.0, 9.0), (1.0, 8.0), (1.0, 7.0), (1.0, 6.0), (1.0, 6.0), (1.0, 6.5), (0.0, 0.0)])
    run = train(tmp_path, pairs, steps=9, evaluate_every=1, metric="wer", patience=2)
    assert run.report["steps"] == 6
    assert run.report["ended"] == "no better wer and no lower loss for 2 validations"


def test_a_run_from_before_the_metric_was_filled_in_goes_on():
    tree = {"task": "translate", "data": {"train": "x"}, "train": {"epochs": 3}}
    old, same, other = (validate(tree | {"train": {"epochs": 3, "metric": name}}) for name in (None, "bleu", "exact"))
    assert compare(old, same) == (False, [])
    with pytest.raises(ConfigError, match=r'train\.metric was not set and is "exact"'):
        compare(old, other)


def test_short_epochs_are_not_all_validated(tmp_path, pairs):
    tree = {"task": "translate", "data": {"train": pairs}, "model": PAIR, "train": {"batch_tokens": 100_000}}
    for epochs, every in (
        (30, 1),
        (MAX_VALIDATIONS, 1),
        (10 * MAX_VALIDATIONS, 10),
        (10_000 * MAX_VALIDATIONS, MAX_UPDATES_BETWEEN_VALIDATIONS),
    ):
        assert set_up(prepare(tree | {"train": tree["train"] | {"epochs": epochs}})).every == every


def test_too_few_examples_that_were_set_aside_do_not_choose(tmp_path, pairs, monkeypatch):
    lines = sorted(set(Path(pairs).read_text(encoding="utf-8").splitlines()))[:20]
    few = tmp_path / "few.tsv"
    few.write_text("\n".join(lines), encoding="utf-8")
    tree = {"task": "translate", "data": {"train": str(few)}, "model": PAIR}
    prepared = prepare(tree)
    assert (len(prepared.train), len(prepared.valid)) == (19, 1)
    assert set_up(prepared).keep_last
    assert not set_up(prepare(tree | {"data": {"train": str(few), "valid": str(few)}})).keep_last, (
        "a file always chooses"
    )
    assert not set_up(prepare(tree | {"data": {"train": pairs}})).keep_last
    measured(monkeypatch, [(0.1, 1.0), (1.0, 2.0)])
    run = train(tmp_path, str(few), steps=2, evaluate_every=1, metric="wer")
    assert run.report["best_step"] == 2
