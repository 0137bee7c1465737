"""BLEU, chrF and exact matches: the numbers are those of sacreBLEU."""

from __future__ import annotations

import logging
import math
import subprocess
import sys

import pytest
import sacrebleu

from weft.metrics import TranslationTally

HYPOTHESES = ["The cat sat on the mat.", "A dog runs in the park", "Hello, world!", ""]
REFERENCES = ["The cat sat on the mat.", "The dog is running in the park.", "Hello world!", "Nothing"]


def tally(hypotheses: list[str], references: list[str]) -> TranslationTally:
    result = TranslationTally()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        result.add(hypothesis, reference)
    return result


@pytest.mark.covers("E2")
def test_scores_are_the_corpus_scores_of_sacrebleu() -> None:
    result = tally(HYPOTHESES, REFERENCES)
    assert result.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert result.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert result.count == 4
    assert result.exact == 1 / 4


@pytest.mark.covers("E2")
def test_a_hand_worked_bleu() -> None:
    # "a b c d" against "a b c d e": all n-grams are right, so BLEU is the brevity penalty exp(1 - 5/4).
    assert tally(["a b c d"], ["a b c d e"]).bleu == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_a_perfect_translation() -> None:
    result = tally(REFERENCES[:2], REFERENCES[:2])
    assert (result.bleu, result.chrf, result.exact) == (pytest.approx(100), pytest.approx(100), 1.0)


def test_bleu_is_of_the_corpus_and_not_a_mean_of_sentences() -> None:
    whole = tally(HYPOTHESES[:2], REFERENCES[:2]).bleu
    halves = [
        tally([hypothesis], [reference]).bleu
        for hypothesis, reference in zip(HYPOTHESES[:2], REFERENCES[:2], strict=True)
    ]
    assert whole != pytest.approx(sum(halves) / 2)


def test_order_does_not_matter() -> None:
    forward, backward = tally(HYPOTHESES, REFERENCES), tally(HYPOTHESES[::-1], REFERENCES[::-1])
    assert (forward.bleu, forward.chrf) == (pytest.approx(backward.bleu), pytest.approx(backward.chrf))


@pytest.mark.covers("E2")
def test_signatures_name_the_settings() -> None:
    result = tally(HYPOTHESES, REFERENCES)
    assert result.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert result.chrf_signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"


def test_nothing_added_is_zero() -> None:
    result = TranslationTally()
    assert (result.count, result.bleu, result.chrf, result.exact) == (0, 0.0, 0.0, 0.0)
    assert result.bleu_signature == tally(HYPOTHESES, REFERENCES).bleu_signature


def test_tokenized_text_gives_no_advice_at_every_evaluation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        assert tally(["a b c d ."] * 200, ["a b c d ."] * 200).bleu == pytest.approx(100)
    assert caplog.records == []


def test_importing_metrics_does_not_import_sacrebleu() -> None:
    code = "import sys, weft.metrics; print('sacrebleu' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
