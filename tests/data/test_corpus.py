"""Records that can be gone through again, from memory or from the file."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data import BadLines, Corpus, Text, fingerprints, read_texts

RECORDS = [Text(f"text {number}", f"file:{number}") for number in range(10)]


class Source:
    """Counts how often it is opened."""

    def __init__(self):
        self.opened = 0

    def __call__(self):
        self.opened += 1
        return iter(RECORDS)


@pytest.mark.parametrize(("keep", "opened"), [(1000, 1), (20, 4)])
def test_records_are_kept_while_they_are_few_and_read_again_otherwise(keep, opened):
    source = Source()
    corpus, survey = Corpus.survey(source, keep=keep)
    for _ in range(3):
        assert list(corpus) == RECORDS
    assert source.opened == opened
    assert (survey.examples, survey.characters) == (10, 60)
    assert survey.keys.tolist() == fingerprints(record.key for record in RECORDS).tolist()


@pytest.mark.parametrize("keep", [1000, 20])
def test_a_mask_parts_a_corpus_without_loss(keep):
    corpus, _ = Corpus.survey(Source(), keep=keep)
    mask = np.arange(10) % 3 == 0
    held, rest = list(corpus.where(mask)), list(corpus.where(~mask))
    assert held == [record for number, record in enumerate(RECORDS) if number % 3 == 0]
    assert sorted([*held, *rest], key=lambda record: record.text) == RECORDS


def test_a_corpus_larger_than_memory_streams_from_its_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{record.text}\n" for record in RECORDS), encoding="utf-8")
    corpus, _ = Corpus.survey(lambda: read_texts(str(path), bad=BadLines()), keep=5)
    path.write_text("changed\n", encoding="utf-8")
    assert [record.text for record in corpus] == ["changed"], "nothing was kept"
