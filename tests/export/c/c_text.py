"""The functions of text.h through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


class Struct(ctypes.Structure):
    """weft_text; its size is an upper bound."""

    _fields_ = [("private", ctypes.c_double * 64)]


class Copy(ctypes.Structure):
    _fields_ = [("place", ctypes.c_size_t), ("word", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Stream(ctypes.Structure):
    _fields_ = [
        ("read", ctypes.c_size_t),
        ("copies", ctypes.POINTER(Copy)),
        ("copy_count", ctypes.c_size_t),
        ("state", ctypes.c_uint32),
        ("pending_count", ctypes.c_uint32),
        ("pending", ctypes.c_ubyte * 8),
    ]


class Span(ctypes.Structure):
    _fields_ = [("start", ctypes.c_size_t), ("size", ctypes.c_size_t)]


class CText:
    """A vocabulary opened in C; errors are negative numbers."""

    def __init__(self, library: ctypes.CDLL, tables: bytes) -> None:
        self.library, self.tables = library, tables
        self.text = Struct()
        for name in ("encode", "decode", "stream_next", "split"):
            getattr(library, f"weft_text_{name}").restype = ctypes.c_long
        for name in ("workspace", "most_ids"):
            getattr(library, f"weft_text_{name}").restype = ctypes.c_size_t
        error = library.weft_text_open(ctypes.byref(self.text), tables, ctypes.c_size_t(len(tables)))
        assert error == 0, error

    def most_ids(self, size: int) -> int:
        return int(self.library.weft_text_most_ids(ctypes.byref(self.text), ctypes.c_size_t(size)))

    def encode(self, text: str | bytes) -> list[int] | int:
        data = text.encode() if isinstance(text, str) else text
        size = self.library.weft_text_workspace(ctypes.byref(self.text), ctypes.c_size_t(len(data)))
        most = self.most_ids(len(data))
        ids, workspace = (ctypes.c_int32 * most)(), (ctypes.c_double * -(-size // 8))()
        count = self.library.weft_text_encode(
            ctypes.byref(self.text),
            data,
            ctypes.c_size_t(len(data)),
            ids,
            ctypes.c_size_t(most),
            workspace,
            ctypes.c_size_t(size),
        )
        return int(count) if count < 0 else ids[:count]

    def decode(self, ids: Sequence[int]) -> str:
        given = (ctypes.c_int32 * len(ids))(*ids)
        size = self.library.weft_text_decode(
            ctypes.byref(self.text), given, ctypes.c_size_t(len(ids)), None, ctypes.c_size_t(0)
        )
        out = ctypes.create_string_buffer(size + 1)
        written = self.library.weft_text_decode(
            ctypes.byref(self.text), given, ctypes.c_size_t(len(ids)), out, ctypes.c_size_t(size)
        )
        assert written == size
        return out.raw[:size].decode()

    def pieces(self, ids: Sequence[int], sizes: Sequence[int], copied: dict[int, str] | None = None) -> list[str]:
        """The text in pieces: after the first `sizes[0]` ids, and so on, and the rest."""
        copies = (Copy * len(copied or {}))(
            *((place, word.encode(), len(word.encode())) for place, word in sorted((copied or {}).items()))
        )
        stream, given = Stream(copies=copies, copy_count=len(copies)), (ctypes.c_int32 * len(ids))(*ids)
        found = []
        for n, last in [*((size, 0) for size in sizes), (len(ids), 1)]:
            out = ctypes.create_string_buffer(1 << 16)
            size = self.library.weft_text_stream_next(
                ctypes.byref(self.text),
                ctypes.byref(stream),
                given,
                ctypes.c_size_t(n),
                last,
                out,
                ctypes.c_size_t(1 << 16),
            )
            assert size >= 0, size
            found.append(out.raw[:size].decode())
        return found

    def word(self, word: str) -> int:
        data = word.encode()
        return int(self.library.weft_text_word(ctypes.byref(self.text), data, ctypes.c_size_t(len(data))))

    def split(self, text: str) -> list[str]:
        data = text.encode()
        words = (Span * (len(data) + 1))()
        count = self.library.weft_text_split(
            ctypes.byref(self.text), data, ctypes.c_size_t(len(data)), words, ctypes.c_size_t(len(data))
        )
        assert count >= 0, count
        return [data[word.start : word.start + word.size].decode() for word in words[:count]]

    def spell(self, tokens: Sequence[int]) -> bytes:
        """The bytes that tokens add one by one."""
        state, found = 0, b""
        for token in tokens:
            at, size, blank = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
            state = self.library.weft_text_spell(
                ctypes.byref(self.text),
                ctypes.c_int32(token),
                state,
                ctypes.byref(at),
                ctypes.byref(size),
                ctypes.byref(blank),
            )
            assert state >= 0, state
            found += b" " * blank.value + ctypes.string_at(at.value or 0, size.value)
        return found
