"""The settings of pairs: the columns of their files, and the tokens of both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from weft.settings import KEEP_UNREAD, Count, Length, Settings, Unread, Vocabulary
from weft.tasks.sections import Tree
from weft.tasks.tables import ColumnSetting, TableData
from weft.text import TextConfig


class PairData(TableData):
    """Sentence pairs: TSV, CSV or JSON, or two files with a sentence per line."""

    source: ColumnSetting = "source"
    """The source's column: a name, a JSON path, a number from 0, or several to be joined."""
    target: ColumnSetting = "target"
    """The target's column, or several to be joined; with references = "many" each of several is a reference."""
    language: ColumnSetting | None = None
    """The column with the language of the target, where there are several: it becomes the source's first token."""
    references: Literal["one", "many"] = "one"
    """many: in evaluation every target of a source is right; in training each is a pair."""
    max_length: Length = 200
    """The greatest number of tokens on either side of a training pair."""
    overlong: Literal["error", "truncate", "drop"] = "drop"
    """The treatment of a longer training pair."""

    def unread(self) -> Iterator[Unread]:
        if all(isinstance(path, list) and len(path) == 2 for path in (self.train, self.valid, self.test) if path):
            for name in ("source", "target", "language"):
                yield Unread(name, "names no column: the files are parallel text", "remove it, or give a table")


class SideText(Settings):
    """Settings of one side of a pair that differ from those of both."""

    kind: Literal["char", "word", "bpe", "unigram", "imported"] | None = None
    size: Vocabulary | None = None
    min_count: Count | None = None
    lowercase: bool | None = None
    punctuation: Literal["split", "keep"] | None = None
    unknown: str | None = None

    def given(self) -> Tree:
        return self.model_dump(exclude_none=True)


class PairText(TextConfig):
    """Tokens of both sides; `[text.source]` and `[text.target]` say where they differ."""

    shared: bool = False
    """One vocabulary for both sides."""
    source: SideText = Field(default_factory=SideText)
    """Settings that differ on the source side."""
    target: SideText = Field(default_factory=SideText)
    """Settings that differ on the target side."""

    @model_validator(mode="after")
    def _shared_means_same(self) -> PairText:
        if self.shared and (self.source.given() or self.target.given()):
            raise ValueError("shared = true excludes [text.source] and [text.target]; remove one of the two")
        return self

    def unread(self) -> Iterator[Unread]:
        sides = {"source": self.side(self.source), "target": self.side(self.target)}
        for name, text in sides.items():
            if text.kind != "word":
                why = f'cuts nothing: kind = "{text.kind}" on this side'
                yield Unread(f"{name}.punctuation", why, 'remove it, or use kind = "word"')
        for name in TextConfig.model_fields:
            if all(getattr(side, name) is not None for side in (self.source, self.target)):
                yield Unread(name, f"is not read: text.source.{name} and text.target.{name} overrule it", "remove it")
        if all(text.kind != "word" for text in sides.values()):
            yield Unread("punctuation", "cuts nothing: neither side has words", 'remove it, or use kind = "word"')

    def side(self, side: SideText) -> TextConfig:
        """The settings of one side."""
        common = {name: getattr(self, name) for name in TextConfig.model_fields}
        return TextConfig.model_validate(common | side.given(), context=KEEP_UNREAD)
