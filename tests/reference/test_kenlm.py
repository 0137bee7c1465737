"""Kneser-Ney against KenLM: every n-gram of an ARPA file that `lmplz` writes for the same texts.

`lmplz` is built from the source package of kenlm (`pip download kenlm --no-binary kenlm --no-deps`, then cmake and
`make lmplz`), which needs Boost; the test finds it on the PATH.
"""

from __future__ import annotations

import math
import random
import shutil
import subprocess

import numpy as np
import pytest

from weft.data import Examples, Ragged
from weft.models import FitOptions, NgramConfig, NgramModel
from weft.models.ngram import SPECIAL_WORDS, read_arpa
from weft.text import EOS, SOS

LMPLZ = shutil.which("lmplz")


@pytest.mark.skipif(LMPLZ is None, reason="there is no lmplz, the program of KenLM, on the PATH")
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("lines", [3, 40, 3000])
def test_every_number_is_that_of_lmplz(tmp_path, order, lines):
    chance, vocabulary = random.Random(lines), 400
    weights = [1 / rank for rank in range(1, vocabulary - 4)]
    texts = [chance.choices(range(5, vocabulary), weights, k=chance.randrange(1, 12)) for _ in range(lines)]
    numbers = {word: place for place, word in enumerate(sorted({word for text in texts for word in text}), 5)}
    texts = [[numbers[word] for word in text] for text in texts]  # both vocabularies have the words that occur
    source, target = tmp_path / "texts.txt", tmp_path / "model.arpa"
    source.write_text("".join(f"{' '.join(f'w{word}' for word in text)}\n" for text in texts), encoding="utf-8")
    command = [str(LMPLZ), "-o", str(order), "-S", "100M", "-T", str(tmp_path), "--discount_fallback"]
    subprocess.run([*command, "--text", str(source), "--arpa", str(target)], check=True, capture_output=True)

    model = NgramModel(NgramConfig(order=order), len(numbers) + 5)
    column = Ragged.from_lists([[SOS, *text, EOS] for text in texts])
    options = FitOptions(epochs=1, rate=1.0, batch_tokens=1, seed=0, threads=1)
    fit = model.fit(Examples({"tokens": column}, column.lengths), options)
    for part in range(1, fit.total + 1):
        fit.step(part)

    arpa = read_arpa(target)
    ids = {word: SPECIAL_WORDS.get(word) or int(word[1:]) for word in arpa.words}
    for theirs, ours in zip(arpa.tables(ids, model.vocabulary), model.tables.orders, strict=True):
        if len(ours.keys):  # at order 1 the keys are the words, and are not stored
            assert np.array_equal(ours.keys.numpy(), theirs.keys)
        for found, wanted in ((ours.log_probabilities, theirs.log_probabilities), (ours.backoffs, theirs.backoffs)):
            difference = np.abs(found.numpy() - wanted[: len(found)]) / math.log(10)
            assert difference.max(initial=0.0) < 1e-4
