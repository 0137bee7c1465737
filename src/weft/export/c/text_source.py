"""The C of texts as one source: its files are written to be compiled together."""

from __future__ import annotations

from typing import Final

from weft.nn.native.compiler import read_source

PACKAGE: Final = "weft.export.c"

TEXT_FILES: Final = (
    "text_utf8.c",
    "text_open.c",
    "text_classes.c",
    "text_bpe.c",
    "text_unigram.c",
    "text_cut.c",
    "text_encode.c",
    "text_words.c",
    "text_decode.c",
)
"""The files in the order in which they are compiled; each uses those before it."""


def text_header() -> str:
    """The content of text.h."""
    return read_source(PACKAGE, "text.h")


def text_source() -> str:
    """The content of text.c, which includes text.h."""
    return "\n".join(read_source(PACKAGE, name) for name in TEXT_FILES)
