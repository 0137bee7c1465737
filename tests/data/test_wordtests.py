"""Files of word similarities and analogies are recognised by their content."""

from __future__ import annotations

import pytest

from weft.data import Analogy, BadLines, Similarity, Text, read_texts, read_with_tests
from weft.errors import DataError


def read(path, content, *, skip=False):
    path.write_text(content, encoding="utf-8")
    bad = BadLines(skip=skip)
    return list(read_with_tests(str(path), bad, lambda name: read_texts(name, bad=bad)))


@pytest.mark.covers("T6")
def test_similarities(tmp_path):
    path = tmp_path / "a.txt"
    assert read(path, "tiger\tcat\t7.35\nlove\tsex\t6.77\n") == [
        Similarity("tiger", "cat", 7.35, f"{path}:1"),
        Similarity("love", "sex", 6.77, f"{path}:2"),
    ]
    assert len(read(path, "word1\tword2\tscore\ntiger\tcat\t7.35\n")) == 1


@pytest.mark.covers("T6")
def test_analogies(tmp_path):
    path = tmp_path / "a.txt"
    found = read(path, ": capital-common\nAthens Greece Oslo Norway\n: family\nboy girl king queen\n")
    assert found == [
        Analogy(("Athens", "Greece", "Oslo", "Norway"), "capital-common", f"{path}:2"),
        Analogy(("boy", "girl", "king", "queen"), "family", f"{path}:4"),
    ]


@pytest.mark.parametrize("content", ["a tiger\tcat\t7\n", "one\ttwo\tthree\n", "7\t8\n", "a text: with words\n"])
def test_other_files_are_text(tmp_path, content):
    assert read(tmp_path / "a.txt", content) == [Text(content.strip(), f"{tmp_path}/a.txt:1")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tiger\tcat\t7\nlove\tsex\n", ":2: is not a pair of words with a score"),
        ("tiger\tcat\t7\nlove\tsex\tnan\n", ":2: is not a pair of words with a score"),
        (": a\none two three\n", ":2: is no analogy: 3 words"),
    ],
)
def test_a_bad_line_is_named_or_skipped(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.txt", content)
    if "tiger" in content:
        assert len(read(tmp_path / "a.txt", content, skip=True)) == 1
