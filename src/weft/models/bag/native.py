"""The C library of the bag of n-grams (bag.c), and the structures that it reads."""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.native.struct import ConstBytes, ConstFloats, ConstInts, ConstLongs, Floats, NativeStruct


class NativeTexts(NativeStruct):
    """The fields of `Characters`."""

    c_name: ClassVar[str] = "texts_t"
    _fields_ = (("codes", ConstInts), ("kinds", ConstBytes), ("starts", ConstLongs), ("texts", ctypes.c_long))


class NativeNgrams(NativeStruct):
    """The fields of `NgramKinds` and, to weigh the n-grams too, those of an `NgramVocabulary`."""

    c_name: ClassVar[str] = "ngrams_t"
    _fields_ = (
        ("words", ctypes.c_long), ("least", ctypes.c_long), ("most", ctypes.c_long), ("buckets", ctypes.c_long),
        ("rows", ConstInts), ("idf", ConstFloats),
    )  # fmt: skip


class NativeUpdates(NativeStruct):
    """Updates by `count` rows of a sparse matrix with labels, or with a target number each: weights (F, width), output
    (classes, width) or NULL.

    The rate falls from `rate` to `last_rate`; losses (tasks) are parts of the mean loss.
    """

    c_name: ClassVar[str] = "updates_t"
    _fields_ = (
        ("starts", ConstLongs), ("columns", ConstInts), ("values", ConstFloats), ("label_starts", ConstLongs),
        ("labels", ConstLongs), ("targets", ConstFloats), ("order", ConstLongs), ("class_weights", ConstFloats),
        ("weights", Floats),
        ("output", Floats), ("bias", ConstFloats), ("losses", Floats), ("count", ctypes.c_long),
        ("classes", ctypes.c_long), ("width", ctypes.c_long), ("tasks", ctypes.c_long), ("rate", ctypes.c_float),
        ("last_rate", ctypes.c_float), ("many", ctypes.c_int),
    )  # fmt: skip


LIBRARY: Final = Library(ARITHMETIC, CFile("weft.models.bag", "bag.c", (NativeTexts, NativeNgrams, NativeUpdates)))
