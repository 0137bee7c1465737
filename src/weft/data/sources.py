"""Reads files as numbered lines: streaming, plain or compressed, always UTF-8.

A line ends at LF or CRLF and nowhere else. Python's `str.splitlines` also breaks at U+2028, form feeds and the like,
which would put two parallel files out of step.
"""

from __future__ import annotations

import difflib
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from weft.data.badlines import BadLines
from weft.errors import DataError

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike]

STDIN = "-"
PYTHON = "<python: "
"""The prefix of the text for Python data, which is in a configuration in place of a path."""
MAX_LINE_BYTES = 1 << 26
"""A longer line means a file without line ends, which must not be read into memory."""
PIECE_BYTES = 1 << 20
"""A longer line of running text is cut."""

_BUFFER_BYTES = 1 << 18
_COMPRESSED = (".gz", ".xz")
UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

CHECK_PATH = "check the path"
"""The cure for a missing file that no other name is like."""


def each_path(path: Paths) -> list[str]:
    """Return one path or several as a list, as they were given."""
    found = [os.fspath(path)] if isinstance(path, str | os.PathLike) else [os.fspath(one) for one in path]
    if "" in found:
        raise DataError("the path is empty", cure="name a file")
    return found


def has_surrogate(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which is no character and cannot be encoded."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def suffix(name: str) -> str:
    """The suffix for the format, in lower case: `.csv` for `a.csv`, `A.CSV` and `a.csv.gz`."""
    path = Path(name.lower())
    return path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix


def lines(name: str, bad: BadLines) -> Iterator[tuple[int, str]]:
    """Yield number (from one) and text of every line, without its end. A bad line is reported and skipped."""
    for number, raw in raw_lines(name):
        try:
            line = decode(raw, name, number)
        except DataError as error:
            bad.report(error)
            continue
        yield number, without_end(line)


def raw_lines(name: str) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of every line, with its end; for readers that must know which lines cannot be decoded."""
    for number, raw in _chunks(name, MAX_LINE_BYTES):
        if len(raw) >= MAX_LINE_BYTES and raw[-1:] != b"\n":
            decode(raw[:PIECE_BYTES], name, number)
            cure = 'give one example per line, or read the file as running text with unit = "stream"'
            raise DataError(f"a line of more than {MAX_LINE_BYTES:,} bytes", where=f"{name}:{number}", cure=cure)
        yield number, raw


def raw_pieces(name: str) -> Iterator[tuple[int, bytes]]:
    """Like `raw_lines`, but a long line comes in pieces, cut after a blank or at least between characters."""
    number, rest = 0, b""
    for number, raw in _chunks(name, PIECE_BYTES):
        piece, rest = rest + raw, b""
        if piece[-1:] != b"\n":
            end = _last_break(piece)
            piece, rest = piece[:end], piece[end:]
        if piece:
            yield number, piece
    if rest:
        yield number, rest


def decode(raw: bytes, name: str, number: int) -> str:
    """Decode line `number` of the file `name`; raises a DataError if it is not UTF-8."""
    if 0 in raw:
        utf16 = number == 1 and raw.startswith(_UTF16_MARKS)
        what = "not UTF-8: it looks like UTF-16" if utf16 else "looks binary: it has NUL bytes"
        cure = f"convert it: iconv -f utf-16 -t utf-8 {name}" if utf16 else "give a text file, plain, .gz or .xz"
        raise DataError(what, where=f"{name}:{number}", cure=cure)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
        cure = f"convert it, from Latin-1 for example: iconv -f latin1 -t utf-8 {name}"
        raise DataError(what, where=f"{name}:{number}", cure=cure) from None


def without_end(line: str) -> str:
    """The line without its LF or CRLF."""
    return line[:-2] if line[-2:] == "\r\n" else line.removesuffix("\n")


def _chunks(name: str, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines; longer ones in chunks of `size` bytes, all with the number of the line."""
    number, ended = 0, True
    try:
        with _opened(name) as stream:
            for raw in iter(partial(stream.readline, size), b""):
                number += ended
                if number == 1 and ended:
                    raw = raw.removeprefix(UTF8_MARK)
                ended = raw[-1:] == b"\n"
                if raw:
                    yield number, raw
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(error, name, number) from None


@contextmanager
def open_bytes(name: str) -> Iterator[BinaryIO]:
    """Open a file, decompressed; a file that cannot be opened or read inside the block raises a DataError."""
    try:
        with _opened(name) as stream:
            yield stream
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(error, name, 0) from None


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file and decompress it. Reading lines directly from gzip and lzma objects is slow, hence the buffer."""
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with Path(name).open("rb", buffering=_BUFFER_BYTES) as file:
        match Path(name).suffix.lower():
            case ".gz":
                yield io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=file)), _BUFFER_BYTES)
            case ".xz":
                yield io.BufferedReader(cast(io.RawIOBase, lzma.LZMAFile(file)), _BUFFER_BYTES)  # noqa: SIM115
            case _:
                yield file


def _last_break(raw: bytes) -> int:
    """The position where a piece without line end may be cut: after its last blank, else before its last character."""
    if blank := raw.rfind(b" ") + 1:
        return blank
    end = len(raw) - 1
    while end > len(raw) - 4 and raw[end] & 0xC0 == 0x80:
        end -= 1
    return max(end, 0)


def _unreadable(error: Exception, name: str, number: int) -> DataError:
    """The error for a file that cannot be opened (line 0) or read after its line `number`."""
    where = f"{name}:{number + 1}" if number else name
    match error:
        case FileNotFoundError() if name.startswith(PYTHON):
            cure = "give it again in Python, or name a file"
            return DataError("this data was given in Python, and no file has it", where=where, cure=cure)
        case FileNotFoundError() if Path(name).is_symlink():
            return DataError("is a link to a file that is not there", where=where, cure="mend it, or name another file")
        case FileNotFoundError():
            return DataError("no such file", where=where, cure=_near(Path(name)))
        case IsADirectoryError():
            return DataError("is a folder where a file is needed", where=where, cure="name a file inside it")
        case PermissionError():
            return DataError("no permission to read it", where=where, cure=f"allow it, with: chmod u+r {name}")
        case EOFError():
            return DataError("the compressed data ends too early", where=where, cure="copy or compress the file again")
        case gzip.BadGzipFile() | zlib.error() | lzma.LZMAError():
            compression = "gzip" if name.lower().endswith(".gz") else "xz"
            cure = "compress it again; a plain file must not end in .gz or .xz"
            return DataError(f"not {compression} data, or damaged ({error})", where=where, cure=cure)
    reason = getattr(error, "strerror", None) or error
    return DataError(f"cannot be read: {reason}", where=where, cure="check the path and the disk")


def _near(path: Path) -> str:
    """The cure for a missing file: a similar name in its folder."""
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return f"there is no folder {path.parent} either" if not path.parent.exists() else CHECK_PATH
    near = difflib.get_close_matches(path.name, names, n=1)
    return f'did you mean "{path.with_name(near[0])}"?' if near else CHECK_PATH
