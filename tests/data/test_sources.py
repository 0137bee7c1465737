"""Files as numbered lines: every disguise of the same text reads alike, every unreadable file says why."""

import gzip
import io
import lzma
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import BadLines, read_inputs, read_stream, read_texts, sources
from weft.errors import DataError

CLEAN = "eins\nzwei äöü\n\ndrei\n".encode()
RECORDS = [("eins", 1), ("zwei äöü", 2), ("drei", 4)]


def texts(path: Path, bad: BadLines | None = None) -> list[tuple[str, int]]:
    return [(text.text, int(text.place.rpartition(":")[2])) for text in read_texts(path, bad=bad or BadLines())]


def error(path: Path | str) -> DataError:
    with pytest.raises(DataError) as caught:
        list(read_texts(path, bad=BadLines()))
    return caught.value


# Parametrised by name alone: gzip writes the time into its header, and all test processes must collect the same ids.
DISGUISES = {
    "plain.txt": CLEAN,
    "mark.txt": b"\xef\xbb\xbf" + CLEAN,
    "crlf.txt": CLEAN.replace(b"\n", b"\r\n"),
    "mixed.txt": CLEAN.replace(b"\n", b"\r\n", 1),
    "unfinished.txt": CLEAN[:-1],
    "packed.txt.gz": gzip.compress(CLEAN),
    "packed.TXT.GZ": gzip.compress(b"\xef\xbb\xbf" + CLEAN[:-1].replace(b"\n", b"\r\n")),
    "packed.txt.xz": lzma.compress(CLEAN),
    "two_members.gz": gzip.compress(CLEAN[:8]) + gzip.compress(CLEAN[8:]),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_every_disguise_reads_like_the_clean_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(DISGUISES[name])
    assert texts(path) == RECORDS
    assert "".join(block.text for block in read_stream(path, bad=BadLines())).rstrip("\n") + "\n" == CLEAN.decode()


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\r"])
def test_only_line_feeds_end_a_line(tmp_path: Path, character: str) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes(f"a{character}b\nc\n".encode())
    assert texts(path) == [(f"a{character}b", 1), ("c", 2)]


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\0"))))
def test_lines_are_what_stands_between_line_feeds(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "lines")
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        expected = [line.removesuffix("\r") for line in lines]
        if expected:
            expected[0] = lines[0].removeprefix("\ufeff").removesuffix("\r")
        assert list(read_inputs(path)) == expected


@pytest.mark.covers("T3")
@given(text=st.text(alphabet="a é漢😀\r\n", min_size=1), piece=st.integers(1, 9), block=st.integers(1, 9))
def test_a_stream_is_its_text_to_the_letter(text: str, piece: int, block: int) -> None:
    with (
        TemporaryDirectory() as folder,
        mock.patch("weft.data.sources.PIECE_BYTES", piece),
        mock.patch("weft.data.texts.BLOCK_CHARACTERS", block),
        mock.patch("weft.data.texts.MIN_BLOCK_CHARACTERS", 1),
    ):
        path = Path(folder, "stream")
        path.write_bytes(text.encode())
        assert "".join(one.text for one in read_stream(path, bad=BadLines())) == text.replace("\r\n", "\n")


def test_a_stream_comes_in_blocks_that_end_at_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "stream.txt"
    path.write_text("0123456789abcde\n" * 35_000)
    blocks = list(read_stream(path, bad=BadLines()))
    assert [len(block.text) for block in blocks] == [65_536] * 8 + [35_712]
    assert [block.place for block in blocks[:2]] == [f"{path}:1", f"{path}:4097"]


@pytest.mark.parametrize(
    ("lines", "sizes"), [(600, [1200] * 8), (610, [1232] * 7 + [1136]), (70, [1120]), (100, [1024, 576]), (90, [1440])]
)
def test_a_small_file_comes_in_eight_blocks_and_the_last_is_no_remnant(tmp_path, lines: int, sizes: list[int]) -> None:
    path = tmp_path / "stream.txt"
    path.write_text("0123456789abcde\n" * lines)
    assert [len(block.text) for block in read_stream(path, bad=BadLines())] == sizes


def test_pieces_of_a_long_line_bear_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PIECE_BYTES", 8)
    monkeypatch.setattr("weft.data.texts.BLOCK_CHARACTERS", 1)
    path = tmp_path / "long.txt"
    path.write_text("one two three\nfour\n")
    blocks = [(block.text, block.place) for block in read_stream(path, bad=BadLines())]
    assert blocks == [("one two ", f"{path}:1"), ("three\n", f"{path}:1"), ("four\n", f"{path}:2")]


def test_inputs_are_lines_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "inputs"
    path.write_bytes(b" a \r\n\n\tb\n  ")
    assert list(read_inputs(path)) == [" a ", "", "\tb", "  "]
    path.write_bytes(b"")
    assert list(read_inputs(path)) == []


def test_a_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\ntwo")))
    assert [(text.text, text.place) for text in read_texts("-", bad=BadLines())] == [("one", "-:1"), ("two", "-:3")]


def test_a_line_is_answered_before_the_next_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        inputs = read_inputs("-")
        for line in ("first", "second"):
            typed.write(f"{line}\n".encode())
            assert next(inputs) == line


def test_several_files_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("two\n")
    read = list(read_texts([tmp_path / "a", tmp_path / "b"], bad=BadLines()))
    assert [text.text for text in read] == ["one", "two"]
    assert read[1].place == f"{tmp_path / 'b'}:1"


@pytest.mark.parametrize(
    ("name", "data", "line", "what"),
    [
        ("latin.txt", b"ok\nfa\xe7ade\n", 2, "not UTF-8: byte 0xe7 at position 3"),
        ("cut.txt", b"ok\nok\n\xe6\xbc", 3, "not UTF-8: byte 0xe6 at position 1"),
        ("surrogate.txt", b"\xed\xa0\x80\n", 1, "not UTF-8"),
        ("picture.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1, "not UTF-8"),
        ("program.txt", b"ok\n\x7fELF\x02\0\0\xff\n", 2, "looks binary"),
        ("windows.txt", "häh\n".encode("utf-16"), 1, "looks like UTF-16"),
    ],
)
def test_what_is_not_text_is_named_with_its_line(tmp_path: Path, name: str, data: bytes, line: int, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    caught = error(path)
    assert caught.where == f"{path}:{line}"
    assert what in caught.what
    assert caught.cure


def test_a_line_that_is_not_text_can_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\n\xe7\nthree\n\xe7\n")
    bad = BadLines(skip=True)
    assert texts(path, bad) == [("one", 1), ("three", 3)]
    assert bad.count == 2
    assert bad.first is not None
    assert bad.first.where == f"{path}:2"
    assert "".join(block.text for block in read_stream(path, bad=bad)) == "one\nthree\n"


@pytest.mark.parametrize("data", [b"", b"\n \n\t\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_examples_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(data)
    assert error(path).what == f"no examples in {path}"


def test_a_file_of_skipped_lines_tells_the_first(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"\xe7\n\xe8\n")
    with pytest.raises(DataError, match=r"no examples in .*lines skipped: 2, .*latin.txt:1: not UTF-8"):
        list(read_texts(path, bad=BadLines(skip=True)))


def test_a_missing_file_suggests_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").touch()
    caught = error(tmp_path / "trian.tsv")
    assert (caught.what, caught.where) == ("no such file", str(tmp_path / "trian.tsv"))
    assert caught.cure == f'did you mean "{tmp_path / "train.tsv"}"?'
    assert error(tmp_path / "zzzzzz").cure == "check the path"
    assert error(tmp_path / "nowhere" / "a").cure == f"there is no folder {tmp_path / 'nowhere'} either"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a folder" in error(tmp_path).what


def test_a_forbidden_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.touch()
    monkeypatch.setattr(Path, "open", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    assert error(path).what == "no permission to read it"


def packed_lines(count: int) -> bytes:
    return "".join(f"line {number} {number * 2654435761 % 2**32}\n" for number in range(count)).encode()


DAMAGED = {
    "cut.gz": (gzip.compress(packed_lines(9000))[:-5000], "ends too early"),
    "cut.xz": (lzma.compress(packed_lines(9000))[:-5000], "ends too early"),
    "plain.gz": (b"just text\n", "not gzip data, or damaged"),
    "plain.xz": (b"just text\n", "not xz data, or damaged"),
    "tail.gz": (gzip.compress(b"ok\n") + b"garbage", "not gzip data, or damaged"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_compression_is_told_from_bad_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data, what = DAMAGED[name]
    path.write_bytes(data)
    caught = error(path)
    assert what in caught.what
    assert str(caught.where).startswith(str(path))
    with pytest.raises(DataError):
        list(read_texts(path, bad=BadLines(skip=True)))


def test_a_flipped_byte_in_a_compressed_file_is_found(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(packed_lines(2000)))
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "flipped.gz").write_bytes(data)
    assert "not gzip data, or damaged" in error(tmp_path / "flipped.gz").what


def test_lines_before_the_damage_are_read_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(packed_lines(90_000))[:-1000])
    read: list[str] = []
    with pytest.raises(DataError) as caught:
        read.extend(line for line in read_inputs(path))
    assert len(read) > 50_000
    assert read == packed_lines(len(read)).decode().splitlines()
    assert caught.value.where == f"{path}:{len(read) + 1}"


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 100)
    path = tmp_path / "long.txt"
    path.write_text("short\n" + "word " * 21)
    caught = error(path)
    assert caught.where == f"{path}:2"
    assert "a line of more than 100 bytes" in caught.what
    assert "".join(block.text for block in read_stream(path, bad=BadLines())) == path.read_text()
