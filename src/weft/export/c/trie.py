"""A trie of byte strings as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Trie = tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32]]


def build_trie(entries: Mapping[bytes, int]) -> Trie:
    """(first child of each node and one more, label of each node, value + 1 of each node or 0).

    Nodes are numbered level by level, the root first, so that the children of a node stand together, ordered by label.
    """
    keys = sorted(entries)
    children, labels, values = [1], [0], list[int]()
    level, depth = [(0, len(keys))], 0  # for each node of a level its keys, from one place to another
    while level:
        below = list[tuple[int, int]]()
        for first, last in level:
            ends = first < last and len(keys[first]) == depth
            values.append(entries[keys[first]] + 1 if ends else 0)
            place = first + ends
            while place < last:
                label, begin = keys[place][depth], place
                while place < last and keys[place][depth] == label:
                    place += 1
                labels.append(label)
                below.append((begin, place))
            children.append(len(labels))
        level, depth = below, depth + 1
    return np.array(children, dtype=np.uint32), np.array(labels, dtype=np.uint8), np.array(values, dtype=np.uint32)
