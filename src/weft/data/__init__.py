"""Records, the files they come from, and the batches they end up in."""

from weft.data.badlines import BadLines
from weft.data.batches import Batches
from weft.data.corpus import Corpus, Examples, Survey
from weft.data.labelled import read_labelled
from weft.data.limit import Limit, Overlong
from weft.data.packed import PackedBatches, Room, Side
from weft.data.pairs import read_pairs
from weft.data.ragged import Ragged, RaggedBuilder, pad
from weft.data.records import Labelled, Pair, Record, Tagged, Text
from weft.data.split import fingerprints, hold_out, overlap
from weft.data.tagged import read_tagged
from weft.data.texts import read_inputs, read_stream, read_texts

__all__ = [
    "BadLines",
    "Batches",
    "Corpus",
    "Examples",
    "Labelled",
    "Limit",
    "Overlong",
    "PackedBatches",
    "Pair",
    "Ragged",
    "RaggedBuilder",
    "Record",
    "Room",
    "Side",
    "Survey",
    "Tagged",
    "Text",
    "fingerprints",
    "hold_out",
    "overlap",
    "pad",
    "read_inputs",
    "read_labelled",
    "read_pairs",
    "read_stream",
    "read_tagged",
    "read_texts",
]
