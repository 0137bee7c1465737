"""Puts vectors that were trained before into the embeddings of a new model: from files, or from embed runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weft.data import each_vector
from weft.errors import ConfigError, WeftError, counted
from weft.models import WordVectors
from weft.models.embedding import Vectors
from weft.models.pretrained import VectorSource
from weft.settings import show
from weft.tasks import Task
from weft.tasks.embed import Embed
from weft.text import SPECIALS, Tokenizer

Row = tuple[str, NDArray[np.float32]]


class Found(NamedTuple):
    """The vector of each token that has one, how many were found in lower case or stood there twice, and the words
    whose vector has only zeros, which is no direction."""

    vectors: dict[int, NDArray[np.float32]]
    lowered: int
    repeated: int
    zeros: tuple[str, ...] = ()


def fill_embeddings(model: nn.Module, task: Task) -> list[str]:
    """Fill every embedding of the model that names a source of vectors; returns notes on how many were found."""
    notes = []
    for name, module in model.named_modules():
        if isinstance(module, Vectors) and module.source is not None:
            notes.append(_fill(module, module.source, task.tokenizer_of(name), name))
    return notes


def _fill(table: Vectors, source: VectorSource, tokenizer: Tokenizer, name: str) -> str:
    words = {
        number: tokenizer.pieces([number])[0].replace("▁", " ").strip()
        for number in range(len(SPECIALS), len(tokenizer))
    }
    where = f"embedding = {show(source.file)}"
    try:
        found = find_vectors(words, source)
    except WeftError as error:
        raise ConfigError(f"cannot be used: {error}", where=where) from None
    if not found.vectors:
        cure = "check its language and spelling; text.lowercase = true suits vectors of words in lower case"
        raise ConfigError(f"has a vector for none of the {len(words):,} tokens", where=where, cure=cure)
    rows = np.stack(list(found.vectors.values()))
    if rows.shape[1] != table.embedding_dim:
        what = f"has vectors of {rows.shape[1]} numbers, and the model was set up for {table.embedding_dim}"
        raise ConfigError(what, where=where, cure="leave out embedding.size")
    table.fill(torch.tensor(list(found.vectors)), torch.from_numpy(rows))
    share = f"{len(found.vectors):,} of {len(words):,} tokens ({100 * len(found.vectors) / len(words):.0f}%)"
    lowered = f", {found.lowered:,} by their lower-case form" if found.lowered else ""
    repeated = f"; {found.repeated:,} words are there twice, and the first counts" if found.repeated else ""
    if found.zeros:
        repeated += f"; {counted(len(found.zeros), 'vector')} of zeros not used, such as that of {show(found.zeros[0])}"
    rest = "the others start at random" if source.tune else "the others stay random, and none learns"
    return f"{name}: {share} have a vector in {source.file}{lowered}{repeated}; {rest}"


def find_vectors(words: Mapping[int, str], source: VectorSource) -> Found:
    """The vectors of tokens, given their spellings: of the word itself, or of its lower-case form."""
    exact, lower = _by_spelling(words), _by_spelling({number: word.lower() for number, word in words.items()})
    vectors, in_lower, repeated = dict[int, NDArray[np.float32]](), dict[str, NDArray[np.float32]](), 0
    zeros: list[str] = []
    wanted = exact.keys() | lower.keys()
    for word, vector in _rows(source.file, wanted):
        if word in in_lower:
            repeated += 1
            continue
        if not vector.any():
            zeros.append(word)
            continue
        in_lower[word] = vector
        vectors |= dict.fromkeys(exact.get(word, ()), vector)
    lowered = {
        number: in_lower[word]
        for word, numbers in lower.items()
        if word in in_lower
        for number in numbers
        if number not in vectors
    }
    return Found(vectors | lowered, len(lowered), repeated, tuple(zeros))


def _by_spelling(words: Mapping[int, str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, word in words.items():
        if word:
            found.setdefault(word, []).append(number)
    return found


def _rows(file: str, wanted: set[str]) -> Iterator[Row]:
    """The vectors of wanted words in a file or a run folder."""
    if not Path(file).is_dir():
        yield from each_vector(file, wanted)
        return
    from weft.run.load import load  # which reads the settings that name this source

    run = load(file, device="cpu")
    assert isinstance(run.model, WordVectors)
    assert isinstance(run.task, Embed)
    table = run.model.table().numpy()
    for word in sorted(wanted):
        number = run.task.number(word)
        made = None if number is not None else run.model.unseen(run.task.tokenizer.normalize(word))
        if number is not None:
            yield word, table[number]
        elif made is not None:
            yield word, made.numpy()
