"""The tags of a word by itself: of a known word from its own counts, of an unknown or rare one from shape and ending.

    S_0(t) = P(t) of rare words          S_i(t) = (c_i(t) + θ S_{i-1}(t)) / (c_i + θ)          i = 1 … n
    P(t|w) = (c(w, t) + κ S_n(t)) / (c(w) + κ)

c_1 counts the rare words of the training data of w's shape, c_i those that also share its last i - 1 characters; n is
the longest ending that some rare word has. The successive smoothing of endings is that of TnT (Brants, 2000), which has
c_i(t) / c_i and 1 in the place of c_i(t) and c_i: there an ending of one word weighs as much as one of a thousand. On
UD English-EWT that is 0.3% of all words worse.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.models.hmm.shapes import SHAPES, shapes_of
from weft.models.speller import Spelling
from weft.models.tagger import TaggerSizes

THETA: Final = 5.0
"""The weight of a shorter ending against the counts of a longer one, in occurrences of it."""

KAPPA: Final = 0.5
"""The weight of shape and ending against the counts of a word itself, in occurrences of it."""


class TagCounts(nn.Module):
    """How often each of many things has each tag: things (N) with few tags each, stored one after another."""

    def __init__(self, things: int, labels: int) -> None:
        super().__init__()
        self.labels = labels
        self.offsets: Tensor
        self.tags: Tensor
        self.register_buffer("offsets", torch.zeros(things + 1, dtype=torch.long))
        self.register_buffer("tags", torch.zeros(0, dtype=torch.long))
        self.counts = nn.Parameter(torch.zeros(0), requires_grad=False)

    def fill(self, things: NDArray[np.int64], tags: NDArray[np.int64], *, size: int) -> None:
        """Count pairs of a thing, out of `size`, and a tag."""
        keys, counts = np.unique(things * self.labels + tags, return_counts=True)
        ends = np.searchsorted(keys, np.arange(size + 1) * self.labels)
        self.offsets = torch.from_numpy(ends)
        self.tags = torch.from_numpy(keys % self.labels)
        self.counts = nn.Parameter(torch.from_numpy(counts).float(), requires_grad=False)

    def allocate(self, things: torch.Size, pairs: torch.Size) -> None:
        """Make room for things (N + 1) and pairs (M)."""
        if len(things) != 1 or len(pairs) != 1 or things[0] < 1:
            raise ValueError("the counts of tags are no lists")
        device = self.counts.device
        self.offsets = torch.zeros(things[0], dtype=torch.long, device=device)
        self.tags = torch.zeros(pairs[0], dtype=torch.long, device=device)
        self.counts = nn.Parameter(torch.zeros(pairs[0], device=device), requires_grad=False)

    def check(self) -> None:
        """Raise a ValueError unless offsets rise from 0 to the number of pairs, and tags and counts are in range."""
        steps, size = self.offsets.diff(), len(self.tags)
        if self.offsets[0] != 0 or self.offsets[-1] != size or bool((steps < 0).any()):
            raise ValueError("the offsets of counts do not rise from 0 to their number")
        if size and (self.tags.min() < 0 or self.tags.max() >= self.labels or not self.counts.min() > 0):
            raise ValueError("a count is of no tag, or not above 0")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, things: Tensor) -> Tensor:
        """things (U,) -> counts (U, L)."""
        starts = self.offsets[things]
        sizes = self.offsets[things + 1] - starts
        rows = torch.repeat_interleave(torch.arange(len(things)), sizes)
        within = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes)[rows]
        places = starts[rows] + within
        found = torch.zeros(len(things), self.labels)
        found[rows, self.tags[places]] = self.counts[places]
        return found


class EndingTree(nn.Module):
    """A tree of word endings: root → shape → last character → the one before it, and so on.

    Node n + 1 is the key n; keys are parent × symbols + symbol, sorted. So a child is found by a binary search.
    """

    def __init__(self, characters: int, classes: Tensor, *, longest: int) -> None:
        super().__init__()
        self.symbols, self.longest = SHAPES + characters, longest
        self.classes: Tensor
        self.keys: Tensor
        self.register_buffer("classes", classes, persistent=False)
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))

    def paths(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """characters (U, C), lengths (U) -> the symbols on the way from the root (U, n); -1 past a word's beginning."""
        steps = torch.arange(self.longest)
        places = lengths[:, None] - 1 - steps
        letters = characters.gather(1, places.clamp(min=0)) + SHAPES if characters.size(1) else places
        endings = torch.where(places >= 0, letters, -1)
        return torch.cat([shapes_of(self.classes[characters], lengths)[:, None], endings], dim=1)

    def grow(self, paths: NDArray[np.int64]) -> None:
        """Make a node for each path (U, n) and for each beginning of one."""
        parents = np.zeros(len(paths), dtype=np.int64)
        keys: list[NDArray[np.int64]] = []
        count = 0
        for step in range(paths.shape[1]):
            symbols = paths[:, step]
            here = np.where((symbols >= 0) & (parents >= 0), parents * self.symbols + symbols, -1)
            found = np.unique(here[here >= 0])
            parents = np.where(here >= 0, count + 1 + np.searchsorted(found, here), -1)
            keys.append(found)
            count += len(found)
        self.keys = torch.from_numpy(np.concatenate(keys))

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.keys) + 1

    def nodes(self, paths: Tensor) -> Tensor:
        """paths (U, n) -> the nodes on each path (U, n + 1) from the root on; -1 where the tree has none."""
        node = torch.zeros(len(paths), dtype=torch.long)
        found = [node]
        for step in range(paths.size(1)):
            key = node * self.symbols + paths[:, step]
            place = torch.searchsorted(self.keys, key).clamp(max=max(len(self.keys) - 1, 0))
            there = (node >= 0) & (paths[:, step] >= 0)
            there &= self.keys[place] == key if len(self.keys) else torch.zeros_like(there)
            node = torch.where(there, place + 1, -1)
            found.append(node)
        return torch.stack(found, dim=1)

    def check(self) -> None:
        """Raise a ValueError unless the keys rise and each parent comes before its child."""
        numbers = torch.arange(len(self.keys))
        if len(self.keys) and (
            bool((self.keys.diff() <= 0).any()) or self.keys[0] < 0 or bool((self.keys // self.symbols > numbers).any())
        ):
            raise ValueError("the tree of endings is not in order")


class Lexicon(nn.Module):
    """P(t|w) of the words of a batch."""

    def __init__(self, sizes: TaggerSizes, *, longest: int) -> None:
        super().__init__()
        self.words = TagCounts(sizes.words, sizes.labels)
        self.tree = EndingTree(sizes.characters, sizes.classes, longest=longest)
        self.endings = TagCounts(len(self.tree), sizes.labels)

    def forward(self, words: Tensor, spelling: Spelling) -> Tensor:
        """words (U,) with their spelling -> P(t|w) (U, L)."""
        guess = self.by_ending(spelling)
        known = self.words.of(words)
        return (known + KAPPA * guess) / (known.sum(1, keepdim=True) + KAPPA)

    def by_ending(self, spelling: Spelling) -> Tensor:
        """S_n(t) of words by shape and ending alone (U, L)."""
        nodes = self.tree.nodes(self.tree.paths(spelling.characters, spelling.lengths))
        guess = self._root().expand(len(nodes), -1)
        for level in range(1, nodes.size(1)):
            counts = self.endings.of(nodes[:, level].clamp(min=0))
            longer = (counts + THETA * guess) / (counts.sum(1, keepdim=True) + THETA)
            guess = torch.where(nodes[:, level, None] >= 0, longer, guess)
        return guess

    def _root(self) -> Tensor:
        """S_0 (1, L), with one more of each tag: none has the probability 0."""
        counts = self.endings.of(torch.zeros(1, dtype=torch.long)) + 1
        return counts / counts.sum()
