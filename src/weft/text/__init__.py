"""Text as token ids: characters, words and subwords, each with a vocabulary learned from the training text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.text.frames import FRAMES, Frame, frame_of
from weft.text.rules import StoredRules, TextRules
from weft.text.sample import SAMPLE_CHARACTERS
from weft.text.tokenizer import Tokenizer
from weft.text.unknown import UnknownWords
from weft.text.vocabulary import EOS, MASK, PAD, SOS, SPECIALS, UNK

if TYPE_CHECKING:
    from weft.text.config import FramedText, TextConfig, word_defaults

__all__ = [
    "EOS",
    "FRAMES",
    "MASK",
    "PAD",
    "SAMPLE_CHARACTERS",
    "SOS",
    "SPECIALS",
    "UNK",
    "Frame",
    "FramedText",
    "StoredRules",
    "TextConfig",
    "TextRules",
    "Tokenizer",
    "UnknownWords",
    "frame_of",
    "word_defaults",
]


def __getattr__(name: str) -> Any:
    """Import the settings when they are first used: the runner of exported models works without pydantic."""
    if name in ("FramedText", "TextConfig", "word_defaults"):
        return getattr(import_module("weft.text.config"), name)
    raise AttributeError(f"module 'weft.text' has no attribute '{name}'")
