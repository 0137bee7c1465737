"""The phrasebook: an English–French corpus drawn from weft's own grammar, with pairs, tags, reviews and text.

`make(seed)` returns 36,000 distinct English sentences, each with its French translation and part-of-speech tags,
and 9,000 reviews with a sentiment. English decides the French: `you` is always vous, `they` is always ils, every word
has one translation, and a sentence with two readings is not drawn.

Its files: `english` and `french` have the word forms, `lexicon` and `verbs` the words, `nounphrase` and `clause` the
grammar, `statements` and its neighbours the patterns, `corpus` the drawing.
"""

from weft.phrasebook.corpus import Parts, Phrasebook, make
from weft.phrasebook.files import write
from weft.phrasebook.reviews import Review
from weft.phrasebook.sentence import Phrase

__all__ = ["Parts", "Phrase", "Phrasebook", "Review", "make", "write"]
