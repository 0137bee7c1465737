"""The special tokens around a text, and between two texts, in tasks that read whole texts.

         a text                  a pair of texts
end      w <eos>                 u <sos> w <eos>
bert     <sos> w <eos>           <sos> u <eos> w <eos>
roberta  <sos> w <eos>           <sos> u <eos> <eos> w <eos>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from weft.text.rules import TextRules
from weft.text.vocabulary import EOS, SOS


class Frame(NamedTuple):
    """Special tokens before the first text and between two; the end token is always the last."""

    start: tuple[int, ...]
    between: tuple[int, ...]

    def around(self, ids: Sequence[int]) -> list[int]:
        """The tokens of a text as a model reads them."""
        return [*self.start, *ids, EOS]

    def pair(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """The tokens of two texts as a model reads them."""
        return [*self.start, *first, *self.between, *second, EOS]

    def marks(self, *, pairs: bool) -> int:
        """Special tokens of a row, without the mark between two texts that every limit of length allows for."""
        return len(self.start) + 1 + (len(self.between) - 1 if pairs else 0)


FRAMES: Final = {"end": Frame((), (SOS,)), "bert": Frame((SOS,), (EOS,)), "roberta": Frame((SOS,), (EOS, EOS))}
"""Frames by the names of `text.frame`."""


def frame_of(text: TextRules) -> Frame:
    """The frame of some settings; those without one have the end token alone."""
    return FRAMES[getattr(text, "frame", "end")]
