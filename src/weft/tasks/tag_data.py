"""The sections `[data]` and `[text]` of tagging."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from weft import limits
from weft.settings import Length, Unread
from weft.tasks.sections import DataConfig
from weft.tasks.tables import ColumnSetting
from weft.text import FramedText


class TaggedData(DataConfig):
    """Tagged sentences: CoNLL-U, or columns separated by blanks with an empty line between sentences."""

    field: str = "upos"
    """The CoNLL-U column that holds the tag."""
    column: int | None = Field(None, ge=1, le=limits.COLUMN)
    """The tag's column in other files, counted from zero; the last one unless given."""
    max_length: Length = 200
    """The greatest number of words of a training sentence."""
    overlong: Literal["error", "truncate", "split", "drop"] = "split"
    """The treatment of a longer training sentence."""
    features: ColumnSetting | None = None
    """Feature vectors in the place of words: a key of JSON, columns of a table with a row per step, or "*" for all."""
    sequence: ColumnSetting = "sequence"
    """The column that names the sequence of a row, in a TSV or CSV with a row per step."""

    def unread(self) -> Iterator[Unread]:
        if self.features is None:
            yield Unread("sequence", "groups no rows: the input is words", "remove it, or set features")
        else:
            yield Unread("column", f"is not read beside features = {self.features!r}", "name the tags by field")
        if self.column is not None:
            yield Unread("field", f"is not read beside column = {self.column}", "remove one of the two")


class TaggedText(FramedText):
    """Words as the files have them; a token is a word, or each word is cut into tokens of an imported tokenizer."""

    kind: Literal["word", "imported"] = "word"
    """Words; imported cuts them into the subwords of an imported run, of which the first has the word's tag."""

    def unread(self) -> Iterator[Unread]:
        yield Unread("punctuation", "cuts nothing: the files have their words cut already", "remove it")
        if self.kind == "word":
            yield Unread("frame", "has no effect: words have no special tokens around them", "remove it")
        else:
            yield from (found for found in super().unread() if found.name != "punctuation")
