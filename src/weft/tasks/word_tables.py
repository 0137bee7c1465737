"""Tables of word vectors: what the words of a model lie near to, by themselves and in sums such as king - man + woman.

similarity(a, b) = cos(v_a, v_b)
king - man + woman = argmax_d cos(v_d, v_king/|v_king| - v_man/|v_man| + v_woman/|v_woman|)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.embedding import Vectors
from weft.models.vectors import Neighbour, VectorTable, nearest
from weft.text import SPECIALS, UNK, Tokenizer
from weft.text.terms import read_terms

BYTE: Final = re.compile("<(0x)?[0-9A-F]{2}>")
"""A byte that is no character by itself, as `Tokenizer.pieces` and the vocabulary write it."""

SMALLEST_SUM: Final = 1e-4
"""Length of a sum of vectors of length 1 under which they cancel out: its direction is chance."""


class Nearest(NamedTuple):
    """The words nearest to a sum of words, and those of its words that have no vector."""

    neighbours: tuple[Neighbour, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class WordTable:
    """Vectors of words with the rule by which a word finds its own."""

    vectors: VectorTable
    number: Callable[[str], int | None]
    """The number of a word; None for one that is not in the table."""
    unseen: Callable[[str], Tensor | None] = lambda word: None
    """The vector (D,) of a word that is not in the table, where one can be made."""
    count: Callable[[str], int] = lambda word: 1
    """The number of tokens of a word."""

    def vector(self, word: str) -> Tensor | None:
        """Return the vector (D,) of a word at length 1, or None for an unknown one."""
        number = self.number(word)
        if number is not None:
            return self.vectors.normalized()[number]
        made = self.unseen(word)
        return None if made is None else F.normalize(made, dim=0)

    def terms(self, text: str) -> list[tuple[int, str]]:
        """Return the words of a text such as "a - b + c", each with its sign."""
        return read_terms(text, lambda word: self.vector(word) is not None)

    def target(self, text: str) -> tuple[Tensor | None, tuple[str, ...]]:
        """Return the sum (D,) of the words of a text, None if there is none, and the words without a vector."""
        terms = self.terms(text)
        vectors = [self.vector(word) for _, word in terms]
        unknown = tuple(word for (_, word), vector in zip(terms, vectors, strict=True) if vector is None)
        if unknown or not terms:
            return None, unknown
        signed = [sign * vector for (sign, _), vector in zip(terms, vectors, strict=True) if vector is not None]
        total = torch.stack(signed).sum(0)
        return (None if float(total.norm()) < SMALLEST_SUM else total), ()

    def neighbours(self, text: str, *, n: int) -> Nearest:
        """Return the words nearest to a word or a sum such as "king - man + woman", whose own words do not count."""
        target, unknown = self.target(text)
        if target is None:
            return Nearest((), unknown)
        own = {number for _, word in self.terms(text) if (number := self.number(word)) is not None}
        return Nearest(tuple(nearest(self.vectors, target, n=n, without=own)))

    def known_words(self) -> list[str]:
        """Return the words that have a vector."""
        counts = self.vectors.counts.tolist()
        return [word for word, count in zip(self.vectors.words, counts, strict=True) if count]


class TokenVectors:
    """The embeddings of one part of a network as vectors of the tokens of its vocabulary."""

    def __init__(self, tokenizer: Tokenizer, weight: Tensor) -> None:
        self.tokenizer, self.weight = tokenizer, weight

    @cached_property
    def words(self) -> list[str]:
        """The tokens in readable form, blanks as ▁."""
        return [self.tokenizer.pieces([number])[0] for number in range(len(self.tokenizer))]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each token by its readable form."""
        return {word: number for number, word in reversed(list(enumerate(self.words))) if self.counts[number]}

    @cached_property
    def counts(self) -> Tensor:
        """(V,) 0 for special tokens, bytes, control characters and rows of zeros, else 1: the training text is not
        counted again. A vocabulary is sorted by frequency or, for subwords, in the order in which they were learned."""
        counts = (self.weight.abs().sum(1) > 0).long()
        counts[: len(SPECIALS)] = 0
        entries = self.tokenizer.tokens(range(len(self.tokenizer)))
        pairs = enumerate(zip(entries, self.words, strict=True))
        odd = [n for n, (entry, word) in pairs if BYTE.search(word) or BYTE.search(entry) or not word.isprintable()]
        counts[odd] = 0
        return counts

    def normalized(self) -> Tensor:
        """The vector of every token at length 1 (V, D); 0 for those that do not count."""
        return self._normalized

    @cached_property
    def _normalized(self) -> Tensor:
        return F.normalize(self.weight.detach().float().cpu(), dim=1) * (self.counts > 0)[:, None]

    def number(self, word: str) -> int | None:
        """Return the number of a token, or of a word that is one token."""
        if self.tokenizer.kind == "word":
            found = self.tokenizer.encode_words([word])[0]
            return None if found == UNK else found
        whole = self.tokenizer.encode(f" {word}")
        if len(whole) == 1 and self.counts[whole[0]]:  # of a word and the same letters inside another, the word
            return whole[0]
        return self.numbers.get(self.tokenizer.normalize(word))

    def vector(self, word: str) -> Tensor | None:
        """Return the mean vector (D,) of the tokens that spell a word that is none; None where one has no vector."""
        ids = self._split(word)
        return self.normalized()[ids].mean(0) if ids and bool((self.counts[ids] > 0).all()) else None

    def count(self, word: str) -> int:
        """Return the number of tokens of a word."""
        return 1 if self.number(word) is not None else len(self._split(word))

    def _split(self, word: str) -> list[int]:
        """Return the subwords or characters of a word; none where tokens are words."""
        if self.tokenizer.kind == "word":
            return []
        return list(self.tokenizer.encode(word if self.tokenizer.kind == "char" else f" {word}"))


def token_tables(model: nn.Module, tokenizer_of: Callable[[str], Tokenizer]) -> dict[str, WordTable]:
    """Return the tables of embeddings of a network by the name of the part that reads them; a shared one once."""
    found: dict[str, WordTable] = {}
    seen: set[int] = set()
    for name, module in model.named_modules():
        if not isinstance(module, Vectors) or id(module.weight) in seen:
            continue
        tokenizer = tokenizer_of(name)
        if len(tokenizer) == module.num_embeddings:
            seen.add(id(module.weight))
            vectors = TokenVectors(tokenizer, module.weight.detach().cpu())
            found[name.removesuffix(".embedding")] = WordTable(vectors, vectors.number, vectors.vector, vectors.count)
    return found


def frequent_words(table: VectorTable, count: int) -> Sequence[int]:
    """Return the numbers of the most frequent words, or without counts the first of the vocabulary."""
    order = torch.argsort(table.counts, descending=True, stable=True)
    known: list[int] = order[table.counts[order] > 0].tolist()
    whole = [number for number in known if len(table.words[number].strip("▁")) > 1]
    return (whole if len(whole) >= count // 2 else known)[:count]
