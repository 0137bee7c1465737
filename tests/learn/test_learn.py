"""Every task learns: a score that only a working model reaches, in seconds, from a file and through the public door."""

from __future__ import annotations

import math
import random

import pytest

import weft

SIZES = {"embedding": 32, "hidden": 64, "dropout": 0.0}
TRANSFORMER = {"kind": "transformer", "width": 32, "heads": 4, "layers": 2, "feedforward": 64, "dropout": 0.0}
CONV = {"kind": "conv", "embedding": 32, "width": 32, "layers": 2, "kernel": 3, "dropout": 0.0}


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def sequences(count, *, letters="abcdefgh", seed=0):
    draw = random.Random(seed)
    return list({"".join(draw.choice(letters) for _ in range(draw.randint(3, 7))) for _ in range(count)})


@pytest.mark.covers("M4")
@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        pytest.param(SIZES, SIZES | {"context": "after"}, id="after"),
        pytest.param(SIZES, SIZES | {"context": "attention"}, id="attention", marks=pytest.mark.slow),
        pytest.param(TRANSFORMER, TRANSFORMER, id="transformer"),
        pytest.param(TRANSFORMER, SIZES, id="transformer-rnn", marks=pytest.mark.slow),
        pytest.param(SIZES, TRANSFORMER, id="rnn-transformer", marks=pytest.mark.slow),
    ],
)
def test_a_translator_with_attention_reverses_a_string(tmp_path, encoder, decoder):
    lines = [f"{text}\t{text[::-1]}" for text in sequences(3000)]
    run = weft.train(
        {
            "task": "translate",
            "data": {"train": write(tmp_path / "pairs.tsv", lines)},
            "text": {"kind": "char", "size": 300},
            "model": {"encoder": encoder, "decoder": decoder},
            "train": {"steps": 300, "batch_tokens": 512, "rate": 4e-3, "label_smoothing": 0.0, "evaluate_every": 300},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["exact"] > 0.9
    assert str(run.predict(["hgfed"])[0]) == "defgh"


@pytest.mark.covers("M4b")
@pytest.mark.parametrize(
    "decoder",
    [pytest.param(TRANSFORMER, id="transformer"), pytest.param({"kind": "rnn", **SIZES}, id="rnn")],
)
def test_one_network_over_source_and_target_reverses_a_string(tmp_path, decoder):
    lines = sorted({f"{text[:4]}\t{text[:4][::-1]}" for text in sequences(3000, letters="abcde")})
    run = weft.train(
        {
            "task": "translate",
            "data": {"train": write(tmp_path / "pairs.tsv", lines)},
            "text": {"kind": "char", "size": 300},
            "model": {"kind": "prefix", "decoder": decoder},
            "train": {"steps": 400, "batch_tokens": 512, "rate": 6e-3, "label_smoothing": 0.0, "evaluate_every": 400},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["exact"] > 0.9
    assert str(run.predict("edca", prefix="ac")) == "acde"


@pytest.mark.covers("M4")
def test_a_translator_without_attention_remembers_a_short_string(tmp_path):
    lines = sorted({f"{text[:3]}\t{text[:3]}" for text in sequences(3000)})
    run = weft.train(
        {
            "task": "translate",
            "data": {"train": write(tmp_path / "pairs.tsv", lines), "valid": write(tmp_path / "valid.tsv", lines[::5])},
            "text": {"kind": "char", "size": 300},
            "model": {"encoder": SIZES, "decoder": SIZES | {"context": "first"}},
            "train": {"steps": 300, "batch_tokens": 512, "rate": 4e-3, "label_smoothing": 0.0, "evaluate_every": 300},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["exact"] > 0.9


@pytest.mark.covers("M2")
@pytest.mark.parametrize("model", [SIZES, TRANSFORMER], ids=["rnn", "transformer"])
def test_a_classifier_needs_the_order_of_words(tmp_path, model):
    """Which of two letters comes first: no bag of tokens can tell."""
    draw = random.Random(0)
    lines = []
    for _ in range(2000):
        middle = "".join(draw.choice("cdefgh") for _ in range(draw.randint(0, 6)))
        first, second = draw.sample("ab", 2)
        lines.append(f"{first}{middle}{second}\t{first}-first")
    run = weft.train(
        {
            "task": "classify",
            "data": {"train": write(tmp_path / "order.tsv", lines)},
            "text": {"kind": "char", "size": 300},
            "model": model | {"word_dropout": 0.0},
            "train": {"steps": 200, "batch_tokens": 512, "evaluate_every": 200},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["accuracy"] > 0.97
    assert run.predict(["acb"])[0].label == "a-first"


@pytest.mark.covers("M3")
@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"embedding": 16, "hidden": 32, "dropout": 0.0}, id="rnn"),
        pytest.param(TRANSFORMER, id="transformer", marks=pytest.mark.slow),
    ],
)
def test_a_tagger_reads_spelling_and_context(tmp_path, model):
    """Words of training never come back: their ending and the word before decide."""
    draw = random.Random(0)
    rows = []
    for _ in range(1500):
        stem = "".join(draw.choice("abcdefgh") for _ in range(4))
        before = draw.choice(["the", "to"])
        rows += [f"{before} O", f"{stem}{draw.choice(['ing', 'ed'])} {'NOUN' if before == 'the' else 'VERB'}"]
        rows += [f"{stem}s PLURAL", ""]
    run = weft.train(
        {
            "task": "tag",
            "data": {"train": write(tmp_path / "tags.txt", rows)},
            "model": model | {"characters": 16},
            "train": {"steps": 200, "evaluate_every": 200},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.report["valid"]["accuracy"] > 0.98
    assert run.predict(["the zzzing"])[0].tags == ("O", "NOUN")


@pytest.mark.covers("M1")
@pytest.mark.parametrize("model", [SIZES, TRANSFORMER, CONV], ids=["rnn", "transformer", "conv"])
def test_a_language_model_learns_what_must_follow_and_knows_what_it_cannot_know(tmp_path, model):
    """Five letters of the alphabet in a row: the first of eight is a guess, the rest and the end of the line follow."""
    alphabet = "abcdefghijkl"
    draw = random.Random(0)
    lines = [alphabet[start : start + 5] for start in (draw.randrange(8) for _ in range(1000))]
    files = {part: write(tmp_path / f"{part}.txt", lines) for part in ("train", "valid")}
    run = weft.train(
        {
            "task": "lm",
            "data": files,
            "text": {"kind": "char", "size": 300},
            "model": model,
            "train": {"steps": 250, "batch_tokens": 512, "rate": 4e-3, "evaluate_every": 250},
        },
        out=tmp_path / "run",
        quiet=True,
    )
    best = 8 ** (1 / 6)
    assert 0.99 * best < run.report["valid"]["perplexity"] < 1.03 * best
    assert run.report["valid"]["bits_per_character"] == pytest.approx(math.log2(run.report["valid"]["perplexity"]))
    [answer] = run.predict(["de"], beam=4)
    assert str(answer) == "defgh"
