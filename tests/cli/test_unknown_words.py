"""Every perplexity comes with vocabulary size and unknown share; text.unknown names the word for unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SMALL = ["model.hidden=8", "model.embedding=8", "train.steps=1", "text.kind=word", "text.min_count=1"]
NUMBERS = "vocabulary 8 words, 25.00% of tokens unknown"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three words are known. One word of three in each validation line is unknown; the end is a token too."""
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("the cat sat\n" * 30, encoding="utf-8")
    Path("valid.txt").write_text("the dog sat\n" * 4, encoding="utf-8")
    Path("means.txt").write_text("the <unk> sat\n" * 30, encoding="utf-8")


@pytest.mark.covers("E5")
def test_every_perplexity_comes_with_vocabulary_and_unknown_share(weft, files):
    trained = weft("train", "lm", "train.txt", "valid.txt", *SMALL, "--out", "run")
    assert trained.code == 0, trained.err
    assert NUMBERS in trained.err
    report = json.loads(Path("run/report.json").read_text(encoding="utf-8"))
    about = {"perplexity_unit": "word", "vocabulary": 8, "tokens": 16, "unknown_share": 0.25}
    assert report["details"]["valid"] == about
    card = Path("run/README.md").read_text(encoding="utf-8")
    assert f"- valid: {NUMBERS}" in card
    assert "bits_per_character compares between all" in card
    assert f"perplexity per word: {NUMBERS}" in weft("evaluate", "run", "valid.txt").out
    assert json.loads(weft("evaluate", "run", "valid.txt", "--json").out)["details"] == about
    summary = json.loads(weft("score", "run", "valid.txt", "--json").out.splitlines()[-1])
    assert (summary["vocabulary"], summary["unknown_share"]) == (8, 0.25)

    assert weft("train", "lm", "train.txt", "valid.txt", *SMALL, "text.size=7", "--out", "small").code == 0
    for data in ([], ["--data", "valid.txt"]):
        compared = json.loads(weft("compare", "run", "small", *data, "--json").out)
        assert [(run["vocabulary"], run["unknown_share"]) for run in compared["runs"]] == [(8, 0.25), (7, 0.5)]
        notes = " ".join(compared["notes"])
        assert "loss and perplexity do not compare; compare bits_per_character" in notes
        assert "the shares of unknown tokens differ (25.00%, 50.00%)" in notes
    shown = weft("compare", "run", "small").out
    assert "vocabulary" in shown
    assert "25.00%" in shown


def test_a_word_that_means_unknown_is_suggested_and_used(weft, files):
    trained = weft("train", "lm", "means.txt", "means.txt", *SMALL, "--out", "text")
    assert 'set text.unknown="<unk>"' in trained.err
    assert "0.00% of tokens unknown" in trained.err
    trained = weft("train", "lm", "means.txt", "means.txt", *SMALL, "text.unknown=<unk>", "--out", "unknown")
    assert trained.code == 0, trained.err
    assert "set text.unknown" not in trained.err
    assert "vocabulary 7 words, 25.00% of tokens unknown" in trained.err
    assert 'unknown = "<unk>"' in Path("unknown/README.md").read_text(encoding="utf-8")


def test_scores_show_characters_and_no_letters_for_bytes(weft, files):
    kind = [*SMALL, "text.kind=bpe"]
    assert weft("train", "lm", "train.txt", "valid.txt", *kind, "--out", "run").code == 0
    Path("line.txt").write_text("cät\n", encoding="utf-8")
    assert json.loads(weft("score", "run", "line.txt", "--json").out.splitlines()[0])["pieces"] == (
        ["c", "<C3>", "ä", "t", "<eos>"]
    )
    shown = weft("score", "run", "line.txt").out
    assert "Ã" not in shown
    assert [line.split()[0] for line in shown.splitlines() if "%" in line] == ["c", "<C3>", "ä", "t", "<eos>"]
