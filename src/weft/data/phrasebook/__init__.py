"""An English–French corpus of our own, drawn from a grammar: pairs, tags, reviews and text without a download.

`make(seed)` gives 36,000 distinct English sentences, each with its one French translation and its part-of-speech tags,
and 9,000 reviews with a sentiment. English decides the French: `you` is always vous, `they` is always ils, every word
has one translation, and a sentence that could be read in two ways is not said.

To read how it works: `english` and `french` have the word forms, `lexicon` and `verbs` the words, `nounphrase` and
`clause` the grammar, `statements` and its neighbours the patterns, `corpus` the drawing.
"""

from weft.data.phrasebook.corpus import Parts, Phrasebook, make
from weft.data.phrasebook.files import write
from weft.data.phrasebook.reviews import Review
from weft.data.phrasebook.sentence import Phrase

__all__ = ["Parts", "Phrase", "Phrasebook", "Review", "make", "write"]
