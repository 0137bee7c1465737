"""Files of word vectors: every format is read as it was written, and a mistake is named with its place."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from weft.data import each_vector, read_header, read_vectors, write_vectors
from weft.data import vectors as vector_files
from weft.errors import DataError

WORDS = ["the", "Straße", "3", "naïve"]
VECTORS = np.array([[0.1, -2.5e-8, 3], [1 / 3, 0, -1e15], [1, 2, 3], [0.5, 0.25, -0.125]], dtype=np.float32)
BAD_LINE = 70_000


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
@pytest.mark.parametrize("format", ["word2vec", "binary", "glove"])
@pytest.mark.covers("T6")
def test_vectors_are_read_as_they_were_written(tmp_path, format, ending):
    path = str(tmp_path / f"vectors.txt{ending}")
    write_vectors(path, WORDS, VECTORS, format=format)
    assert read_header(path) == (format, None if format == "glove" else 4, 3)
    words, vectors = read_vectors(path)
    assert words == WORDS
    np.testing.assert_array_equal(vectors, VECTORS)
    assert [word for word, _ in each_vector(path, {"3", "absent"})] == ["3"]


def test_the_suffix_chooses_the_format(tmp_path):
    for name in ("a.bin", "a.bin.gz"):
        write_vectors(tmp_path / name, WORDS, VECTORS)
        assert read_header(str(tmp_path / name)).format == "binary"
    write_vectors(tmp_path / "a.vec", WORDS, VECTORS)
    assert (tmp_path / "a.vec").read_text(encoding="utf-8").splitlines()[3] == "3 1 2 3"


@pytest.mark.parametrize(
    "content",
    [
        "the 1 2 \nof 3 4 \n",  # word2vec ends its lines with a blank
        "the\t1\t2\nof\t3\t4\n",
        "2 2\r\nthe 1 2\r\nof 3 4\r\n",
        "\ufeff2 2\nthe 1 2\nof 3 4\n",
        "the 1 2\n\nof 3 4",
    ],
)
def test_files_of_other_programs_are_read(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content.encode())
    words, vectors = read_vectors(str(tmp_path / "a.txt"))
    assert words == ["the", "of"]
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_a_word_may_have_blanks_and_the_first_of_two_rows_counts(tmp_path):
    (tmp_path / "a.txt").write_text("the 1 2\n. . . 3 4\nthe 5 6\n", encoding="utf-8")
    words, vectors = read_vectors(str(tmp_path / "a.txt"))
    assert words == ["the", ". . ."]
    assert vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.covers("T6")
@pytest.mark.parametrize("width", [2, 4])
def test_a_wrong_width_far_inside_a_file_is_one_clear_line(tmp_path, width):
    path = str(tmp_path / "big.txt.gz")
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        for number in range(1, BAD_LINE + 10):
            file.write(f"word{number} {' '.join(['0.5'] * (width if number == BAD_LINE else 3))}\n")
    with pytest.raises(DataError) as caught:
        read_vectors(path, {"word1"})
    assert str(caught.value) == (
        f"{path}:70000: {width} numbers where the first line has vectors of 3 "
        "(correct or remove the line, or copy or download it again)"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no vectors"),
        (b"\n", "has no vectors"),
        (b"the\nof\n", "is not a file of vectors"),
        (b"2 2\n", "has no vectors"),
        (b"3 2\nthe 1 2\nof 3 4\n", "its header names 3 vectors, and it has 2"),
        (b"1 2\nthe 1 2\nof 3 4\n", "its header names 1 vector, and it has 2"),
        (b"2 2\nthe 1 2\nof 3\n", ":3: 1 number where its header has vectors of 2"),
        (b"2 0\nthe\n", "names vectors of 0 numbers"),
        (b"2 999999999\nthe 1\n", "names vectors of 999,999,999 numbers"),
        (b"the 1 2\nof 3 nan\n", ":2: a number is NaN or infinite"),
        (b"the 1 2\nof inf 1\n", ":2: a number is NaN or infinite"),
        (b"the 1 2\nof 1e38 -1e38\n", ":2: a number of 1e+38 is too large for a vector"),
        (b"the 1 2\nof 3 x4\n", ':2: "x4" is not a number'),
        (b"the 1 2\nof 3 \n", ":2: 1 number where"),
        (b"caf\xe9 1 2\n", ":1: not UTF-8: byte 0xe9"),
        (b"the 1 2\ncaf\xe9 1 2\n", ":2: not UTF-8: byte 0xe9"),
        (b"\xba\x16\x4f\x2f\x0c\x00\x00\x00", "is a model of fastText"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_vectors(str(path))
    assert message in str(caught.value)
    assert "a.txt" in str(caught.value)


def test_a_missing_file_is_named():
    with pytest.raises(DataError, match="no such file"):
        read_header("/nowhere/glove.txt")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-3], "ends in vector 4 of the 4"),
        (lambda data: data[:20], "ends in vector"),
        (lambda data: data.replace(b"4 3", b"5 3"), "ends in vector 5 of the 5"),
        (lambda data: data.replace(b"4 3", b"3 3"), "more than the 3 vectors"),
        (lambda data: data.replace("ß".encode(), b"\xdf\xdf"), "vector 2: not UTF-8"),
        (
            lambda data: data.replace(np.float32(0.25).tobytes(), np.float32("nan").tobytes()),
            "vector 4: a number is NaN",
        ),
        (lambda data: data + b"x" * vector_files.MAX_WORD_BYTES * 2, "more than the 4 vectors"),
    ],
)
def test_a_damaged_binary_file_is_refused(tmp_path, change, message):
    path = tmp_path / "a.bin"
    write_vectors(path, WORDS, VECTORS)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        read_vectors(str(path))


def test_a_word_with_a_blank_is_not_written(tmp_path):
    with pytest.raises(DataError, match="has a blank"):
        write_vectors(tmp_path / "a.txt", ["a b"], VECTORS[:1])
    assert not (tmp_path / "a.txt").exists()
