"""Records, the readers of their files, their encoded rows, and batches of those."""

from weft.data.badlines import BadLines
from weft.data.batches import Batches
from weft.data.captions import read_captions, source_pair
from weft.data.chunks import chunks
from weft.data.columns import Column
from weft.data.content import forget, identify, stamps
from weft.data.corpus import Corpus, Examples, Survey
from weft.data.example_columns import Columns
from weft.data.images import Picture, PixelShape, pack_pixels, picture_of, pillow, read_pixels, unpack_pixels
from weft.data.input_file import Input, InputFile
from weft.data.inputs import open_inputs
from weft.data.labelled import read_answered, read_labelled
from weft.data.limit import Limit, Overlong
from weft.data.objects import Objects, each_row, find_objects
from weft.data.packed import Capacity, PackedBatches, Side
from weft.data.pairs import group_references, read_pairs
from weft.data.pieces import Pieces
from weft.data.ragged import Ragged, RaggedBuilder, pad, pad_numbers
from weft.data.records import (
    Analogy,
    Labelled,
    ManyLabelled,
    Measured,
    Pair,
    Record,
    Similarity,
    Tagged,
    Text,
    as_values,
    from_values,
    labels_of,
)
from weft.data.row_inputs import RowInputs, read_rows
from weft.data.shape import FEW_WORDS, Shape, ShapeCount
from weft.data.sources import Paths
from weft.data.split import fingerprints, hold_out, overlap
from weft.data.steps import Statistics, Steps
from weft.data.store import VALUES, Store, key_of, read_numbers, read_values
from weft.data.tables import LAYOUT, Layout, Row, Table, read_table
from weft.data.tagged import read_tagged
from weft.data.texts import read_inputs, read_stream, read_texts, read_whole_text
from weft.data.values import read_input, read_language
from weft.data.vectors import VectorHeader, WordTable, each_vector, read_header, read_vectors, write_vectors
from weft.data.wordtests import read_with_tests

__all__ = [
    "FEW_WORDS",
    "LAYOUT",
    "VALUES",
    "Analogy",
    "BadLines",
    "Batches",
    "Capacity",
    "Column",
    "Columns",
    "Corpus",
    "Examples",
    "Input",
    "InputFile",
    "Labelled",
    "Layout",
    "Limit",
    "ManyLabelled",
    "Measured",
    "Objects",
    "Overlong",
    "PackedBatches",
    "Pair",
    "Paths",
    "Picture",
    "Pieces",
    "PixelShape",
    "Ragged",
    "RaggedBuilder",
    "Record",
    "Row",
    "RowInputs",
    "Shape",
    "ShapeCount",
    "Side",
    "Similarity",
    "Statistics",
    "Steps",
    "Store",
    "Survey",
    "Table",
    "Tagged",
    "Text",
    "VectorHeader",
    "WordTable",
    "as_values",
    "chunks",
    "each_row",
    "each_vector",
    "find_objects",
    "fingerprints",
    "forget",
    "from_values",
    "group_references",
    "hold_out",
    "identify",
    "key_of",
    "labels_of",
    "open_inputs",
    "overlap",
    "pack_pixels",
    "pad",
    "pad_numbers",
    "picture_of",
    "pillow",
    "read_answered",
    "read_captions",
    "read_header",
    "read_input",
    "read_inputs",
    "read_labelled",
    "read_language",
    "read_numbers",
    "read_pairs",
    "read_pixels",
    "read_rows",
    "read_stream",
    "read_table",
    "read_tagged",
    "read_texts",
    "read_values",
    "read_vectors",
    "read_whole_text",
    "read_with_tests",
    "source_pair",
    "stamps",
    "unpack_pixels",
    "write_vectors",
]
