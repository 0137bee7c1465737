"""Files of word vectors, read row by row and written: word2vec as text or binary, GloVe; also as .gz and .xz.

word2vec text      "N D", then in each line a word and D numbers, separated by blanks (fastText's .vec too)
word2vec binary    "N D", then a word, a blank and D float32 numbers, N times
GloVe              the lines of word2vec text without the first

Only the rows of wanted words stay in memory.
"""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Collection, Iterable, Iterator
from io import BufferedWriter
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft import limits
from weft.arguments import wrong
from weft.data.sources import UTF8_MARK, decode, open_bytes, raw_lines, suffix
from weft.disk import atomic_write
from weft.errors import DataError, counted, did_you_mean

Format: TypeAlias = Literal["word2vec", "binary", "glove"]
FORMATS: Final[tuple[Format, ...]] = ("word2vec", "binary", "glove")

MAX_HEAD_BYTES: Final = 1 << 20
"""Bytes in which the first line of a file must end."""

MAX_WORD_BYTES: Final = 1 << 14
"""Bytes in which a word of a binary file must end."""

LOOK_BYTES: Final = 64
"""Bytes after the first word of a file that show whether a file holds text or float32 numbers."""

FASTTEXT_MODEL: Final = (793712314).to_bytes(4, "little")
"""The first bytes of a model of fastText, which has more than vectors."""

_HEAD = re.compile(rb"\s*(\d{1,18})[ \t]+(\d{1,18})\s*")
_DIGITS = re.compile(rb"[0-9eE+\-.infaINFA \t\r\n]*")
AGAIN: Final = "copy or download it again"


class VectorHeader(NamedTuple):
    """The format of a file, the number of vectors that its first line names, if it does, and their size."""

    format: Format
    rows: int | None
    size: int


class WordTable(NamedTuple):
    """Words in the order of their file, and their vectors (N, D)."""

    words: list[str]
    vectors: NDArray[np.float32]


def read_header(name: str) -> VectorHeader:
    """Recognise the format of a file and the size of its vectors by its first two lines."""
    with open_bytes(name) as file:
        first = file.readline(MAX_HEAD_BYTES).removeprefix(UTF8_MARK)
        if first.startswith(FASTTEXT_MODEL):
            raise DataError("is a model of fastText, not a file of vectors", where=name, cure="give its .vec file")
        found = _HEAD.fullmatch(first)
        if found:
            count, size = int(found[1]), int(found[2])
            if not 1 <= size <= limits.SIZE:
                what = f"its first line names vectors of {size:,} numbers"
                raise DataError(what, where=f"{name}:1", cure=f"sizes from 1 to {limits.SIZE:,} are read")
            return VectorHeader("binary" if _is_binary(file) else "word2vec", count, size)
    if not first.strip():
        raise DataError("has no vectors", where=name, cure=AGAIN)
    if first[-1:] != b"\n" and len(first) >= MAX_HEAD_BYTES:
        raise DataError(f"has no line end in its first {MAX_HEAD_BYTES:,} bytes", where=name, cure=AGAIN)
    size = len(decode(first, name, 1).split()) - 1
    if size < 1:
        cure = "the first line is a count and a size, or a word and its numbers"
        raise DataError("is not a file of vectors", where=f"{name}:1", cure=cure)
    return VectorHeader("glove", None, size)


def _is_binary(file: BinaryIO) -> bool:
    """Whether float32 numbers follow the first word, and not digits."""
    rest = file.read(MAX_WORD_BYTES + LOOK_BYTES).lstrip(b"\n")
    after = re.split(rb"[ \t]", rest, maxsplit=1)[-1].split(b"\n")[0][:LOOK_BYTES]
    return bool(rest) and (not after.strip() or _DIGITS.fullmatch(after) is None)


def each_vector(name: str, wanted: Collection[str] | None = None) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the words of a file and their vectors (D,), or those of the wanted words. Every row's width is checked."""
    header = read_header(name)
    return _binary_rows(name, header, wanted) if header.format == "binary" else _text_rows(name, header, wanted)


def read_vectors(name: str, wanted: Collection[str] | None = None) -> WordTable:
    """Read a file, or the rows of wanted words. Of a word that is there twice the first row counts."""
    rows: dict[str, NDArray[np.float32]] = {}
    for word, vector in each_vector(name, wanted):
        rows.setdefault(word, vector)
    table = np.stack(list(rows.values())) if rows else np.zeros((0, read_header(name).size), dtype=np.float32)
    return WordTable(list(rows), table)


def _text_rows(
    name: str, header: VectorHeader, wanted: Collection[str] | None
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    size, rows = header.size, 0
    for number, raw in raw_lines(name):
        if number == 1 and header.rows is not None:
            continue
        fields = raw.rstrip().split(b"\t" if b"\t" in raw and b" " not in raw else b" ")
        if fields == [b""]:
            continue
        rows += 1
        if len(fields) <= size:
            raise _wrong_width(name, number, len(fields) - 1, header)
        word = decode(b" ".join(fields[: len(fields) - size]), name, number)
        if " " in word and not _are_words(fields[1 : len(fields) - size]):
            raise _wrong_width(name, number, len(fields) - 1, header)
        if wanted is None or word in wanted:
            yield word, _numbers(fields[len(fields) - size :], f"{name}:{number}")
    _check_count(name, header, rows)


def _are_words(fields: list[bytes]) -> bool:
    """Whether the fields between a word and its numbers belong to the word: some files have words with blanks."""
    return not any(_is_number(field) for field in fields)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return any(byte in b"0123456789" for byte in field)


def _wrong_width(name: str, number: int, found: int, header: VectorHeader) -> DataError:
    source = "the first line" if header.rows is None else "its header"
    what = f"{counted(found, 'number')} where {source} has vectors of {header.size}"
    return DataError(what, where=f"{name}:{number}", cure=f"correct or remove the line, or {AGAIN}")


def _numbers(fields: list[bytes], place: str) -> NDArray[np.float32]:
    try:
        vector = np.array(fields, dtype=np.bytes_).astype(np.float32)
    except ValueError:
        bad = next((field for field in fields if not _is_number(field)), b"?")
        shown = bad.decode("utf-8", "replace")
        raise DataError(f'"{shown:.40}" is not a number', where=place, cure="correct or remove the line") from None
    return _usable(vector, place)


def _usable(vector: NDArray[np.float32], place: str) -> NDArray[np.float32]:
    """The vector, if its numbers and its length are finite: the squares of a cosine must not overflow."""
    if not np.isfinite(vector).all():
        raise DataError("a number is NaN or infinite", where=place, cure="remove this vector")
    with np.errstate(over="ignore"):
        finite = np.isfinite(vector @ vector)
    if not finite:
        what = f"a number of {np.abs(vector).max():.3g} is too large for a vector"
        raise DataError(what, where=place, cure="remove this vector")
    return vector


def _binary_rows(
    name: str, header: VectorHeader, wanted: Collection[str] | None
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    assert header.rows is not None
    with open_bytes(name) as file:
        file.readline(MAX_HEAD_BYTES)
        for number in range(1, header.rows + 1):
            place = f"{name}, vector {number:,}"
            raw = _read_word(file, place)
            data = file.read(4 * header.size)
            if len(data) < 4 * header.size:
                raise _ends_early(name, header, number)
            try:
                word = raw.decode("utf-8")
            except UnicodeDecodeError:
                raise DataError(f"not UTF-8: the word {raw!r}", where=place, cure="write the file in UTF-8") from None
            if wanted is None or word in wanted:
                yield word, _usable(np.frombuffer(data, dtype="<f4").astype(np.float32), place)
        if file.read(MAX_WORD_BYTES).strip():
            what = f"more than the {counted(header.rows, 'vector')} of {header.size} that its header names"
            raise DataError(what, where=name, cure=AGAIN)


def _read_word(file: BinaryIO, place: str) -> bytes:
    """The word before the next blank; a line end before it belongs to the row above. Empty at the end of the file."""
    word = bytearray()
    while len(word) <= MAX_WORD_BYTES:
        byte = file.read(1)
        if byte in (b" ", b""):
            return bytes(word).lstrip(b"\n") if byte else b""
        word += byte
    raise DataError("no word ends here", where=place, cure=f"the vectors before may have another size; {AGAIN}")


def _ends_early(name: str, header: VectorHeader, number: int) -> DataError:
    what = f"ends in vector {number:,} of the {header.rows:,} that its header names"
    return DataError(what, where=name, cure=AGAIN)


def _check_count(name: str, header: VectorHeader, rows: int) -> None:
    if not rows:
        raise DataError("has no vectors", where=name, cure=AGAIN)
    if header.rows is not None and rows != header.rows:
        what = f"its header names {counted(header.rows, 'vector')}, and it has {rows:,}"
        raise DataError(what, where=name, cure=f"correct the first line, or {AGAIN}")


def write_vectors(
    path: str | Path, words: Iterable[str], vectors: NDArray[np.float32], *, format: Format | None = None
) -> None:
    """Write a file of vectors (N, D), compressed by its suffix. Without a format, .bin is binary, and others text."""
    if format is not None and not (isinstance(format, str) and format in FORMATS):
        raise wrong("format", format, "is no format of vectors", did_you_mean(str(format), FORMATS))
    kind = format or ("binary" if suffix(str(path)) == ".bin" else "word2vec")
    rows = np.asarray(vectors, dtype="<f4")

    def write(temporary: Path) -> None:
        with temporary.open("wb") as raw, _compressed(raw, Path(path).suffix.lower()) as file:
            if kind != "glove":
                file.write(f"{len(rows)} {rows.shape[1]}\n".encode())
            for word, row in zip(words, rows, strict=True):
                if not word or word.split() != [word]:
                    raise DataError(f"{word!r} has a blank, which ends a word in such a file", where=str(path))
                file.write(f"{word} ".encode())
                if kind == "binary":
                    file.write(row.tobytes() + b"\n")
                else:
                    file.write(f"{' '.join([f'{number:.9g}' for number in row.tolist()])}\n".encode())

    atomic_write(Path(path), write)


def _compressed(raw: BufferedWriter, ending: str) -> gzip.GzipFile | lzma.LZMAFile | BufferedWriter:
    if ending == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0)  # the same vectors are the same bytes
    return lzma.LZMAFile(raw, "wb") if ending == ".xz" else raw
