"""Text as token ids: characters, words and subwords, each with a vocabulary learned from the training text."""

from weft.text.config import TextConfig, word_defaults
from weft.text.frames import FRAMES, Frame, FramedText, frame_of
from weft.text.sample import SAMPLE_CHARACTERS
from weft.text.tokenizer import Tokenizer
from weft.text.unknown import UnknownWords
from weft.text.vocabulary import EOS, MASK, PAD, SOS, SPECIALS, UNK

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
    "TextConfig",
    "Tokenizer",
    "UnknownWords",
    "frame_of",
    "word_defaults",
]
