"""Text as it comes: pieces of whole characters that never change, from tokens that are neither words nor letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from weft.decoding import DecodeConfig, stream
from weft.tasks.generation import Generating, key_of
from weft.tasks.wording import Wording
from weft.text import EOS, PAD, SOS, UNK, Tokenizer
from weft.text.pipeline import byte_tokens

BROKEN: Final = "\N{REPLACEMENT CHARACTER}"
"""What bytes become that are no character, or not yet one."""


class Pieces:
    """Turns tokens into text as they come; what has been given stays true whatever follows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._tokens, self._given = tokenizer, list[int](), ""
        # Bytes among characters are read as one stretch: one bad byte spoils the good ones before it. Tokens that say
        # nothing do not end the stretch.
        self._bytes = {PAD, SOS, EOS, *map(tokenizer.id, byte_tokens())} - {UNK} if tokenizer.kind == "char" else set()

    def add(self, tokens: Sequence[int]) -> str:
        """The text that is certain now and was not before; it may be empty."""
        self._tokens += tokens
        end = len(self._tokens)
        while end and self._tokens[end - 1] in self._bytes:
            end -= 1
        return self._give(self._tokenizer.decode(self._tokens[:end]).rstrip(BROKEN))

    def finish(self) -> str:
        """What was held back."""
        return self._give(self._tokenizer.decode(self._tokens))

    def _give(self, text: str) -> str:
        new = text[len(self._given) :]
        self._given += new
        return new


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
    """The text of a batch of one, in pieces; together they are what `generate` gives."""
    question = task.question(model, batch, records=records).beginning([wording] if wording else None)
    pieces = Pieces(question.tokenizer)
    prompt, room = question.prompts[0] if question.prompts else (), question.room(decode)
    found = stream(
        model,
        question.memory,
        decode,
        prefix=prompt,
        limit=None if room is None else room[0],
        key=key_of(records[0]),
        constraint=wording.constraint(question.tokenizer) if wording and wording.constrains else None,
    )
    first = pieces.add(prompt)
    if first:
        yield first
    for tokens in found:
        piece = pieces.add(tokens)
        if piece:
            yield piece
    last = pieces.finish()
    if last:
        yield last
