"""Streaming text: pieces of whole characters, each final, from tokens that may be parts of characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch

from weft.decoding import DecodeConfig, stream
from weft.decoding.stops import cut_text
from weft.errors import ConfigError
from weft.tasks.generation import Generating, key_of, stops_of
from weft.tasks.wording import Wording
from weft.text import Tokenizer
from weft.text.beginning import Beginning
from weft.text.pieces import TextPieces


class UntilStop:
    """Passes text on up to the first of some strings; the end of a text that may begin one of them is held back."""

    def __init__(self, strings: Sequence[str], *, before: int) -> None:
        self._strings, self._held, self._before, self.stopped = strings, "", before, False
        """`before`: characters of the prompt that are still to come; strings are not looked for in them."""

    def add(self, text: str) -> str:
        """The text that can be passed on now."""
        if self.stopped or not self._strings:
            return "" if self.stopped else text
        given, text = text[: self._before], self._held + text[self._before :]
        self._before -= len(given)
        text, found = cut_text(text, self._strings)
        self.stopped = found is not None
        keep = 0 if self.stopped else max(map(text_overlap, [text] * len(self._strings), self._strings))
        self._held = text[len(text) - keep :]
        return given + text[: len(text) - keep]

    def finish(self) -> str:
        """The text that was held back."""
        return "" if self.stopped else self._held


def text_overlap(text: str, string: str) -> int:
    """The number of characters at the end of a text that begin the string."""
    sizes = range(min(len(text), len(string)), 0, -1)
    return next((size for size in sizes if text.endswith(string[:size])), 0)


class TextStream:
    """The text of one search in pieces, each final: the beginning, those of further tokens, and the rest."""

    def __init__(self, tokenizer: Tokenizer, prompt: Beginning, stop_at: Sequence[str]) -> None:
        self._pieces, self._until = TextPieces(tokenizer), UntilStop(stop_at, before=len(prompt.shown))
        self._prompt = prompt

    def begin(self) -> str:
        """The text that is certain before the first step."""
        return self._until.add(self._pieces.begin(self._prompt))

    def add(self, tokens: Sequence[int]) -> str:
        """The text that is certain with these tokens more; it may be empty."""
        return self._until.add(self._pieces.add(tokens))

    def finish(self) -> str:
        """The rest of the text, after all its tokens."""
        return self._until.add(self._pieces.finish()) + self._until.finish()


@torch.inference_mode()
def stream_text(
    task: Generating,
    model: Any,
    batch: Any,
    *,
    records: Sequence[Any],
    decode: DecodeConfig,
    wording: Wording | None = None,
) -> Iterator[str]:
    """The text of a batch of one, in pieces; joined they are the text that `generate` returns."""
    if decode.copy_unknown:
        cure = "set copy_unknown = false, or do not stream"
        raise ConfigError("needs the whole text", where="decode.copy_unknown = true", cure=cure)
    question = task.question(model, batch, records=records).beginning([wording] if wording else None)
    [prompt], lengths = question.beginnings(1), question.max_lengths(decode)
    found = stream(
        model,
        question.memory,
        decode,
        prefix=prompt.tokens,
        source=question.sources[0] if question.sources else (),
        forbid=question.forbid,
        limit=None if lengths is None else lengths[0],
        key=key_of(records[0]),
        constraint=wording.constraint(question.tokenizer) if wording and wording.constrains else None,
        stops=stops_of(question.tokenizer, decode),
    )
    text = TextStream(question.tokenizer, prompt, decode.stop_at)
    for piece in chain([text.begin()], map(text.add, found), _rest(text)):
        if piece:
            yield piece


def _rest(text: TextStream) -> Iterator[str]:
    """The rest of a text, read only after all its tokens."""
    yield text.finish()
