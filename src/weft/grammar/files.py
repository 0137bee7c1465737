"""Reads the lines of a grammar or treebank without torch, so that `weft parse` starts quickly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from weft.disk import open_regular
from weft.errors import DataError

STDIN = "-"


def read_lines(name: str, *, most: int) -> Iterator[str]:
    """Yield the lines of a file of at most `most` bytes, without their ends. Raises a DataError for what is no text."""
    if name == STDIN:
        yield from (_decode(raw, name, number) for number, raw in enumerate(sys.stdin.buffer, 1))
        return
    try:
        with open_regular(Path(name), most=most, follow=True) as file:
            for number, raw in enumerate(file, 1):
                yield _decode(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, name, number)
    except FileNotFoundError:
        raise DataError("no such file", where=name, cure="check the path") from None
    except IsADirectoryError:
        raise DataError("is a folder where a file is needed", where=name, cure="name a file inside it") from None
    except OSError as error:
        raise DataError(error.strerror or "cannot be read", where=name, cure="check the path and the file") from None


def _decode(raw: bytes, name: str, number: int) -> str:
    try:
        if 0 in raw:
            raise DataError(
                "looks binary: it has NUL bytes", where=f"{name}:{number}", cure="give a text file in UTF-8"
            )
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
        cure = f"convert it, from Latin-1 for example: iconv -f latin1 -t utf-8 {name}"
        raise DataError(what, where=f"{name}:{number}", cure=cure) from None
    return text[:-2] if text[-2:] == "\r\n" else text.removesuffix("\n")
