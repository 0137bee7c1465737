"""The word vectors of an embed run as a file of word2vec, which gensim, fastText and others read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.data import read_vectors
from weft.errors import RunError
from weft.export.agreement import differs
from weft.run import Run, load
from weft.run.folder.files import NO_FILE_LEFT, check_path, writing
from weft.run.vectors import word_table


class ExportedVectors(NamedTuple):
    """The file, the number of its words, and the size of their vectors."""

    path: Path
    words: int
    size: int


def export_vectors(run: Run | str | Path, *, out: str | Path) -> ExportedVectors:
    """Write the vectors as text, or for .bin in binary form; the file is read back and compared with the run."""
    check_path(out, "--out")
    run = run if isinstance(run, Run) else load(run, device="cpu")
    words, vectors = word_table(run.task, run.model)
    path = Path(out)
    if os.path.lexists(path):
        raise RunError("is there already", where=str(path), cure="choose another --out")
    with writing(path, cure=NO_FILE_LEFT):
        run.write_vectors(path)
    found = read_vectors(str(path))
    if found.words != words or not np.array_equal(found.vectors, vectors):
        path.unlink()
        raise differs("a vector in the file")
    return ExportedVectors(path, *vectors.shape)
