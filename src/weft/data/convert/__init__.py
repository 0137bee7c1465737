"""Public files in formats of their own become the tables that weft reads: one file here for each format.

Each converter yields lines with the part of the data that they belong to. Where a format has no parts, a hash of its
source puts a line into one: the parts do not depend on the order of the file, and all of a source are in one part.
"""

from weft.data.convert.cmudict import CMUDICT
from weft.data.convert.conll import CONLL
from weft.data.convert.contract import Converter, convert
from weft.data.convert.datasets import HUGGINGFACE
from weft.data.convert.names import NAMES
from weft.data.convert.parquet import PARQUET
from weft.data.convert.scan import SCAN
from weft.data.convert.wmt import WMT

CONVERTERS: dict[str, Converter] = {
    "cmudict": CMUDICT,
    "conll": CONLL,
    "huggingface": HUGGINGFACE,
    "names": NAMES,
    "parquet": PARQUET,
    "scan": SCAN,
    "wmt": WMT,
}

__all__ = ["CONVERTERS", "Converter", "convert"]
