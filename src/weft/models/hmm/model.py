"""Hidden Markov model: tags follow each other as they do in the training data, and each gives its word.

    p(y | w) ∝ Π_t P(y_t | y_{t-1}, y_{t-2}) P(w_t | y_t) · P(end | y_T, y_{T-1})          P(w|t) ∝ P(t|w) / P(t)

The model is counted, not trained (see transitions.py and lexicon.py). Order 1 leaves y_{t-2} out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from weft import limits
from weft.data import Examples
from weft.errors import ConfigError
from weft.models.fitting import (
    GRADIENT_SETTINGS,
    UPDATE_SETTINGS,
    Fit,
    FitOptions,
    FitStep,
    FittedModel,
    FittedSettings,
)
from weft.models.hmm.lexicon import Lexicon
from weft.models.hmm.transitions import count_histories, interpolate
from weft.models.hmm.trellis import PairTags, Trellis
from weft.models.speller import Spelling
from weft.models.tagger import TaggerSizes
from weft.models.tagging import ChainTags, TagDistribution
from weft.nn import length_mask
from weft.nn.crf import Chain
from weft.settings import CountFromZero
from weft.text import UNK

MAX_LABELS_OF_PAIRS: Final = 128
"""Tags of a model of order 2: a step takes their third power of operations."""


MAX_LETTERS: Final = 1 << 22
"""Characters, padding counted, of words whose endings are found together."""

Numbers: TypeAlias = NDArray[np.int64]


class HiddenMarkovConfig(FittedSettings):
    """A hidden Markov model of the tags, counted in one pass."""

    unused_train: ClassVar[tuple[str, ...]] = GRADIENT_SETTINGS + UPDATE_SETTINGS

    kind: Literal["hmm"] = "hmm"
    order: Literal[1, 2] = 2
    """Tags before a tag that it depends on."""
    suffix: int = Field(10, ge=0, le=limits.LAYERS)
    """Characters of the longest ending that unknown and rare words are guessed by; 0 leaves endings out."""
    rare: CountFromZero = 10
    """Words that occur so often or less are those that endings and shapes are counted of."""

    def build_tagger(self, sizes: TaggerSizes) -> HiddenMarkovModel:
        if sizes.features:
            cure = 'use kind = "rnn" or "transformer"'
            raise ConfigError("counts words, and the input is feature vectors", where='model.kind = "hmm"', cure=cure)
        return HiddenMarkovModel(self, sizes)


class HiddenMarkovModel(FittedModel):
    """words and spellings -> the probability of their tags."""

    packs = False

    def __init__(self, config: HiddenMarkovConfig, sizes: TaggerSizes) -> None:
        super().__init__()
        if config.order == 2 and sizes.labels > MAX_LABELS_OF_PAIRS:
            what = f"{sizes.labels} tags are more than the {MAX_LABELS_OF_PAIRS} that order = 2 can count"
            raise ConfigError(what, where="model.order = 2", cure="use order = 1")
        self.config, self.sizes = config, sizes
        shape = (sizes.labels + 1,) * (config.order + 1)
        self.lexicon = Lexicon(sizes, longest=config.suffix)
        self.prior = nn.Parameter(torch.full((sizes.labels,), 1 / max(1, sizes.labels)), requires_grad=False)
        self.transitions = nn.Parameter(torch.full(shape, 1 / shape[0]), requires_grad=False)

    def fit(self, examples: Examples, options: FitOptions) -> HiddenMarkovFit:
        return HiddenMarkovFit(self, examples)

    def allocate(self, shapes: Mapping[str, torch.Size]) -> None:
        for part in (self.lexicon.words, self.lexicon.endings):
            name = "words" if part is self.lexicon.words else "endings"
            missing = torch.Size([0, 0])
            part.allocate(shapes.get(f"lexicon.{name}.offsets", missing), shapes.get(f"lexicon.{name}.counts", missing))
        keys = shapes.get("lexicon.tree.keys", torch.Size([0, 0]))
        if len(keys) != 1 or len(self.lexicon.endings) != keys[0] + 1 or len(self.lexicon.words) != self.sizes.words:
            raise ValueError("the counts of words or endings are not as many as these")
        self.lexicon.tree.keys = torch.zeros(keys, dtype=torch.long, device=self.prior.device)

    def check(self) -> None:
        for part in (self.lexicon.words, self.lexicon.endings, self.lexicon.tree):
            part.check()
        for name in ("prior", "transitions"):
            if not bool((getattr(self, name) > 0).all()):
                raise ValueError(f"{name} has a probability that is not above 0")

    def distribution(self, words: Tensor, lengths: Tensor, spelling: Spelling) -> TagDistribution:
        """words (B, T), lengths (B) -> the probability of their tags."""
        real = length_mask(lengths, words.size(1))
        ids = torch.full((len(spelling.characters),), UNK)
        ids[spelling.where[real]] = words[real]
        u = (self.lexicon(ids, spelling) / self.prior).log()[spelling.where]
        logs = self.transitions.log()
        labels = self.sizes.labels
        if self.config.order == 1:
            chain = Chain(logs[labels, :labels], logs[:labels, :labels], logs[:labels, labels])
            return ChainTags(u, lengths, chain.where(self.sizes.legal))
        return PairTags(u, lengths, self._trellis(logs.double()))

    def _trellis(self, logs: Tensor) -> Trellis:
        """The scores of triples without illegal ones."""
        labels, legal = self.sizes.labels, self.sizes.legal
        transitions, end = logs[..., :labels], logs[:, :labels, labels]
        if legal is not None:
            follows = torch.cat([legal.transitions, legal.start[None]])  # (j or the boundary, k)
            transitions = transitions.masked_fill(~follows, -torch.inf)
            end = end.masked_fill(~legal.end, -torch.inf)
        return Trellis(transitions, end)


class HiddenMarkovFit(Fit):
    """Counts words, endings and tags in one pass."""

    total = every = 1
    grows = True

    def __init__(self, model: HiddenMarkovModel, examples: Examples) -> None:
        self.model, self.examples = model, examples

    def step(self, number: int) -> FitStep:
        model, columns = self.model, self.examples.columns
        words, tags, letters, sizes = (
            columns[name].flat(0, columns[name].size).astype(np.int64)
            for name in ("words", "tags", "characters", "sizes")
        )
        lengths, labels = columns["words"].lengths.astype(np.int64), model.sizes.labels
        counts = count_histories(tags, lengths, labels, order=model.config.order)
        probabilities, _ = interpolate(counts)
        model.transitions.copy_(torch.from_numpy(probabilities))
        single = np.bincount(tags, minlength=labels) + 1.0
        model.prior.copy_(torch.from_numpy(single / single.sum()))
        self._count_words(words, tags, letters, sizes)
        return FitStep(len(tags))

    def _count_words(self, words: Numbers, tags: Numbers, letters: Numbers, sizes: Numbers) -> None:
        """Count the tags of each word, and those of the endings and shapes of rare ones."""
        lexicon, known = self.model.lexicon, words != UNK
        lexicon.words.fill(words[known], tags[known], size=self.model.sizes.words)
        often = np.bincount(words, minlength=self.model.sizes.words)
        often[UNK] = 0  # they are rarer than any word of the vocabulary
        rare = np.flatnonzero(often[words] <= self.model.config.rare)
        paths = np.concatenate(list(self._paths(rare, letters, sizes)))
        lexicon.tree.grow(paths)
        nodes = lexicon.tree.nodes(torch.from_numpy(paths)).numpy()
        there = nodes >= 0
        lexicon.endings.fill(nodes[there], np.repeat(tags[rare], there.sum(1)), size=len(lexicon.tree))

    def _paths(self, chosen: Numbers, letters: Numbers, sizes: Numbers) -> Iterator[Numbers]:
        """Yield the paths of some words in the tree of endings, of a part of the words at a time."""
        tree, starts = self.model.lexicon.tree, np.cumsum(sizes) - sizes
        yield np.zeros((0, tree.longest + 1), dtype=np.int64)
        most = int(sizes[chosen].max(initial=1))
        rows = max(1, MAX_LETTERS // most)
        for first in range(0, len(chosen), rows):
            some = chosen[first : first + rows]
            inside = np.arange(most) < sizes[some, None]
            table = np.zeros((len(some), most), dtype=np.int64)
            table[inside] = letters[(starts[some, None] + np.arange(most))[inside]]
            yield tree.paths(torch.from_numpy(table), torch.from_numpy(sizes[some])).numpy()
